"""What the tests of faults share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from holdfast.launch import bridges, networks
from holdfast.launch.networks import Networks


@pytest.fixture(autouse=True)
def _no_network_is_left() -> Iterator[None]:
    yield
    if not networks.why_not():
        us = bridges.owner_of(os.getpid())
        ours = [name for name, owner in bridges.existing() if owner == us]
        assert not ours, f"a test left {ours}"


@pytest.fixture
def three() -> Iterator[Networks]:
    """Three nodes with networks of their own."""
    with Networks.make(3) as made:
        yield made
