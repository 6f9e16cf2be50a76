"""What the death of an owner costs the storage, by policy, whichever way files are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from preloaded import Shell
from support.settings import config_of
from support.waits import wait_for

import holdfast
from holdfast import errors
from holdfast.files import FilePolicy
from holdfast.testing.countfs import CountingFS

NAMES = [f"{number:02}" for number in range(30)]
VICTIM = 2
WAYS = ("read", "open", "shim")


@pytest.fixture
def nodes() -> int:
    return 3


@pytest.fixture
def backing(backing: Path) -> Path:
    for name in NAMES:
        (backing / name).write_text(name)
    return backing


def readers(job: holdfast.Job, shell: Shell, policy: str) -> dict[str, Callable[[str], bytes]]:
    """How to read a file, by way."""
    files = job.files(shell.root, on_failure=policy)  # type: ignore[arg-type]

    def through_open(name: str) -> bytes:
        with files.open(name) as file:
            return bytes(file.read())

    def through_shim(name: str) -> bytes:
        config = config_of(shell.cluster, shell.node)
        order = FilePolicy(on_failure=policy).template(config)  # type: ignore[arg-type]
        return shell.shimmed(f"cat $ROOT/{name}", HOLDFAST_SHIM_ORDER=order).output

    return {"read": files.read, "open": through_open, "shim": through_shim}


def test_an_epoch_after_a_death_costs_the_same_whichever_way_files_are_read(
    shell: Shell, storage: CountingFS
) -> None:
    with shell.cluster.connect() as job:
        files = job.files(shell.root)
        assert [files.read(name).decode() for name in NAMES] == NAMES
        lost = sorted(storage.opens(VICTIM))
        assert len(lost) >= len(WAYS)
        kept = next(name for name in NAMES if name not in lost)
        shell.cluster.kill(VICTIM)

        def agreed() -> bool:
            assert files.read(kept).decode() == kept  # which asks who lives, now and then
            return len(job.nodes) == 2

        wait_for(agreed, "its death was not agreed on")

        def opens_of(way: str, policy: str, names: list[str]) -> int:
            read = readers(job, shell, policy)[way]
            storage.reset()
            for name in names:
                assert read(name).decode() == name
            assert storage.opens().keys() <= set(lost)
            return storage.total().opens

        some = {way: lost[at :: len(WAYS)][:2] for at, way in enumerate(WAYS)}
        for way, names in some.items():
            # Whoever takes nothing over reads the storage each time.
            counts = [opens_of(way, "redirect", names) for _ in range(3)]
            assert counts == [len(names)] * 3, way
        for way, names in some.items():
            if way == "shim":  # its program goes on with the original, as if there were no cache
                assert opens_of(way, "abort", names) == len(names)
                continue
            for name in names:
                with pytest.raises(errors.Unavailable, match=f"node-{VICTIM} .*recache"):
                    readers(job, shell, "abort")[way](name)
        for way, names in some.items():
            counts = [opens_of(way, "recache", names) for _ in range(3)]
            assert counts == [len(names), 0, 0], way
