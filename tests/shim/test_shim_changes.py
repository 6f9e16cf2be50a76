"""What a program changes below a root leaves the cache of all nodes until it is refreshed."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from preloaded import Shell
from support.commands import HOLDFAST, run_in
from support.waits import wait_for

import holdfast
from holdfast.client.contacts import Contacts
from holdfast.client.survey import survey
from holdfast.testing.countfs import CountingFS

NAMES = [f"d{n % 2}/{n}" for n in range(12)]


@pytest.fixture
def backing(backing: Path) -> Path:
    for name in NAMES:
        (backing / name).parent.mkdir(exist_ok=True)
        (backing / name).write_text(f"first {name}")
    return backing


@pytest.fixture
def other(cluster: holdfast.LocalCluster, storage: CountingFS, tmp_path: Path) -> Shell:
    """Programs on the other node."""
    return Shell(cluster, storage, tmp_path / "other", node=1)


def read_all(shell: Shell) -> dict[str, str]:
    ran = shell.shimmed("cd $ROOT && grep -rH . . | sort")
    lines = (line.partition(":") for line in ran.output.decode().splitlines())
    return {name.removeprefix("./"): text for name, _, text in lines}


def test_a_path_that_is_written_leaves_every_node_until_refreshed(
    shell: Shell, other: Shell, storage: CountingFS
) -> None:
    shell.warm()
    before = read_all(other)
    assert len(before) == len(NAMES)
    assert storage.opens() == {}
    for name in NAMES[:4]:
        assert shell.shimmed(f"echo second > $ROOT/{name}").code == 0
    storage.reset()
    after = read_all(other)
    assert after == before | dict.fromkeys(NAMES[:4], "second")
    assert read_all(shell) == after
    assert storage.opens() == dict.fromkeys(NAMES[:4], 2)  # each reader, itself
    with shell.cluster.connect() as job:
        files = job.files(shell.root)
        assert files.read(NAMES[0]) == b"second\n"
        files.refresh(*NAMES[:4])
        files.warm()
    storage.reset()
    assert read_all(other) == after
    assert storage.opens() == {}


def test_warming_names_the_command_that_admits_what_was_changed(shell: Shell) -> None:
    def warm() -> str:
        done = run_in(shell.cluster.directory, HOLDFAST, "warm", str(shell.root), **settings)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    settings = {"HOLDFAST_FILE_SETTLED": "0 s"}
    assert "skipped" not in warm()
    assert shell.shimmed(f"echo second > $ROOT/{NAMES[0]}").code == 0
    told = warm()
    assert f"{len(NAMES) - 1} files are cached" in told
    assert "Skipped 1 file:" in told
    assert "changed by a program of the job (`holdfast refresh` admits those again)" in told
    done = run_in(shell.cluster.directory, HOLDFAST, "refresh", f"{shell.root}/{NAMES[0]}")
    assert done.returncode == 0, done.stderr
    assert "skipped" not in warm()


def test_who_writes_to_a_full_storage_is_told_so_and_nothing_else_breaks(
    shell: Shell, other: Shell, storage: CountingFS
) -> None:
    shell.warm()
    before = read_all(other)
    storage.fail("d0", "write", errno.ENOSPC)
    full = f"echo second >> $ROOT/{NAMES[0]}"
    plain, ran = shell.plain(full), shell.shimmed(full)
    assert ran == plain
    assert ran.code != 0
    assert b"No space left on device" in ran.errors
    assert shell.shimmed(f"echo second > $ROOT/{NAMES[1]}").code == 0  # another directory
    after = read_all(other)
    assert after == before | {NAMES[1]: "second"}
    assert read_all(shell) == after
    storage.heal()
    assert shell.shimmed(f"echo third > $ROOT/{NAMES[0]}").code == 0
    assert read_all(other) == after | {NAMES[0]: "third"}
    assert all(node.alive for node in shell.cluster.nodes)


def test_a_directory_that_is_renamed_takes_all_below_along(
    shell: Shell, other: Shell, storage: CountingFS
) -> None:
    shell.warm()
    assert shell.shimmed("mv $ROOT/d0 $ROOT/d2 && mv $ROOT/d1 $ROOT/d0").code == 0
    after = read_all(other)
    assert after == {
        **{name.replace("d0", "d2"): f"first {name}" for name in NAMES if "d0" in name},
        **{name.replace("d1", "d0"): f"first {name}" for name in NAMES if "d1" in name},
    }


def test_a_temporary_file_puts_nothing_else_in_its_directory_out(
    shell: Shell, other: Shell, storage: CountingFS
) -> None:
    shell.warm()
    before = read_all(other)
    program = """$PYTHON - $ROOT <<'END'
import sys, tempfile
# It asks for a file without a name first, by the name of the directory.
with tempfile.TemporaryFile(dir=sys.argv[1] + "/d0") as file: file.write(b"for a while")
END
"""
    assert shell.shimmed(program)[:3] == (0, b"", b"")
    assert read_all(other) == before
    assert storage.opens(1) == {}


def test_a_name_that_leads_into_the_root_counts_as_the_file_itself(
    shell: Shell, other: Shell, tmp_path: Path
) -> None:
    shell.warm()
    name = NAMES[0]
    assert shell.shimmed(f"ln -s $ROOT/d0 alias && echo second > alias/{Path(name).name}").code == 0
    assert shell.shimmed("cd $ROOT/d1 && echo third > ../d1/1").code == 0
    assert read_all(other)[name] == "second"
    assert read_all(other)["d1/1"] == "third"


def test_other_names_of_a_file_leave_with_it(
    shell: Shell, other: Shell, backing: Path, storage: CountingFS
) -> None:
    (backing / "hard").hardlink_to(backing / NAMES[0])
    (backing / "soft").symlink_to(NAMES[0])
    names = (NAMES[0], "hard", "soft")
    both = "cd $ROOT && cat " + " ".join(names)
    shell.warm()
    assert other.shimmed(both).output == f"first {NAMES[0]}".encode() * 3
    assert storage.opens() == {}
    # It has the same size afterwards; only the shared file system knows of the change.
    assert (
        shell.shimmed(f"printf SECOND | dd of=$ROOT/{NAMES[0]} conv=notrunc status=none").code == 0
    )
    changed = other.shimmed(both).output
    assert changed == (b"SECOND" + f"first {NAMES[0]}".encode()[6:]) * 3
    storage.reset()
    for _ in range(2):
        assert other.shimmed(both).output == changed
    assert storage.total().opens == 2 * len(names)  # by the programs, and by no agent
    with shell.cluster.connect() as job:
        job.files(shell.root).refresh(NAMES[0])
    assert other.shimmed(both).output == changed


def test_a_node_that_starts_later_knows_what_left(shell: Shell, storage: CountingFS) -> None:
    shell.warm()
    for name in NAMES:
        assert shell.shimmed(f"echo second > $ROOT/{name}").code == 0
    shell.cluster.kill(1)
    shell.cluster.restart(1)
    wait_for(lambda: known(shell.cluster, "node-1") == len(NAMES), "it was not told")
    late = Shell(shell.cluster, storage, shell.work, node=1)
    storage.reset()
    for _ in range(2):
        assert set(read_all(late).values()) == {"second"}
    assert storage.opens() == dict.fromkeys(NAMES, 2)  # by the programs, and by no agent


def known(cluster: holdfast.LocalCluster, node: str) -> int:
    contacts = Contacts(cluster.directory, 5.0)
    try:
        [one] = [one for one in survey(contacts).nodes if one.node == node]
        return one.counters.get("notices", -1)
    finally:
        contacts.client.close()


def agreed(shell: Shell, most: int) -> bool:
    """Whether both nodes remember as many keys, and no more than so many."""
    counts = {known(shell.cluster, f"node-{node}") for node in range(2)}
    return len(counts) == 1 and counts.pop() <= most


def test_what_a_refresh_has_undone_never_returns_from_a_node_that_did_not_hear(
    shell: Shell, other: Shell, storage: CountingFS
) -> None:
    shell.warm()
    before = read_all(other)
    changed = NAMES[:6]
    every = " ".join(f"$ROOT/{name}" for name in changed)
    assert shell.shimmed(f"for file in {every}; do echo second > $file; done").code == 0
    shell.cluster.stop(1)  # knows that they left, and not of what follows
    try:
        with shell.cluster.connect() as job:
            files = job.files(shell.root)
            files.refresh("d0")
            assert shell.shimmed(f"echo third > $ROOT/{NAMES[0]}").code == 0
            files.refresh(NAMES[0])
            assert shell.shimmed(f"echo fourth > $ROOT/{NAMES[2]}").code == 0
    finally:
        shell.cluster.resume(1)
    wait_for(lambda: agreed(shell, 8))
    after = before | dict.fromkeys(changed, "second") | {NAMES[0]: "third", NAMES[2]: "fourth"}
    for _ in range(2):
        storage.reset()
        for one in (shell, other):
            assert read_all(one) == after
    # Out are those of d1, which were never refreshed, and the one that was changed since.
    out = [name for name in changed if name.startswith("d1")] + [NAMES[2]]
    assert storage.opens() == dict.fromkeys(out, 2)
