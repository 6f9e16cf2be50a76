"""fsspec's own tests of reading; its others are of file systems that are written to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.tests.abstract import AbstractFixtures, AbstractGetTests

import holdfast
from holdfast.integrations.fsspec import HoldfastFileSystem


class Prepared(HoldfastFileSystem):
    """The same, but what the tests make to read it goes to the directory itself."""

    _local = LocalFileSystem(auto_mkdir=True)
    mkdir, makedirs, touch, pipe, rm = (
        _local.mkdir,
        _local.makedirs,
        _local.touch,
        _local.pipe,
        _local.rm,
    )


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Look once for all tests: they share their agents."""
    yield
    assert not os.listdir(os.environ["HOLDFAST_MEMORY_DIR"])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def prepared(root: Path) -> Iterator[Prepared]:
    with holdfast.local_cluster(nodes=2, file_settled="0 s") as cluster:
        yield Prepared(
            root=root,
            session=cluster.directory.name,
            run_dir=str(cluster.directory.parent),
            validate="open",  # the tests use the same names again
            file_settled="0 s",
            skip_instance_cache=True,
        )


class TestGet(AbstractFixtures, AbstractGetTests):  # type: ignore[misc]
    @pytest.fixture
    def fs(self, prepared: Prepared) -> Prepared:
        return prepared

    @pytest.fixture
    def fs_path(self, root: Path) -> str:
        return str(root)
