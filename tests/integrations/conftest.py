"""Three agents in front of a storage that counts, and how libraries find them."""

from __future__ import annotations

from typing import Any

import pytest
from support.served import served  # noqa: F401 - a fixture
from support.settings import SETTINGS

import holdfast

#: Only a death makes an owner fail, not a busy machine.
PATIENT = {"file_deadline": "10 s", "deadline": "10 s"}


@pytest.fixture
def nodes() -> int:
    return 3


@pytest.fixture
def settings() -> dict[str, str]:
    return {**SETTINGS, **PATIENT}


@pytest.fixture
def options(cluster: holdfast.LocalCluster) -> dict[str, Any]:
    """What leads a library to them."""
    return {
        "session": cluster.directory.name,
        "run_dir": str(cluster.directory.parent),
        **{name: SETTINGS[name] for name in ("file_settled", "file_tier")},
        **PATIENT,
    }
