"""Changes of what leads to files: directories, links, and the roots themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from preloaded import Shell

import holdfast
from holdfast.testing.countfs import CountingFS

#: Made in a directory of its own, by a name: how, what is read there, and what is changed.
WAYS = {
    "directory-behind-a-link": ("ln -s real link", "link/f", "mv real old && mv other real"),
    "link-that-goes-back": (
        "mkdir sub && ln -s ../sub/../real sub/link",
        "sub/link/f",
        "mv real old && mv other real",
    ),
    "chain-of-links": ("ln -s real cur && ln -s cur latest", "latest/f", "ln -sfn other cur"),
    "link-made-anew": (
        "ln -s real cur && ln -s cur latest",
        "latest/f",
        "rm cur && ln -s other cur",
    ),
    "links-to-a-file": ("ln -s real/f cur && ln -s cur latest", "latest", "ln -sf other/f cur"),
    "directory-becomes-a-link": ("ln -s real link", "link/f", "mv real old && ln -s other real"),
    "another-name-of-the-directory": (
        "ln -s real link && ln -s . self",
        "link/f",
        "cd self/self && mv real old && mv other real",
    ),
}
#: The same with roots: what is made, which directory is the root, what is changed.
ROOTS = {
    "root": ("mv real data", "data", "mv data old && mv other data"),
    "above-a-root": (
        "mkdir top new && mv real top/data && mv other new/data",
        "top/data",
        "mv top old && mv new top",
    ),
    "link": ("ln -s real data", "data", "ln -sfn other data"),
    "behind-a-link": ("ln -s real data", "data", "mv real old && mv other real"),
    "chain": ("ln -s real cur && ln -s cur data", "data", "ln -sfn other cur"),
}


def make(backing: Path, shell: Shell, ways: dict[str, tuple[str, str, str]]) -> None:
    for name, (made, _, _) in ways.items():
        for version, text in (("real", "old"), ("other", "new")):
            (backing / name / version).mkdir(parents=True)
            (backing / name / version / "f").write_text(text)
        ran = shell.plain(f"cd {backing / name} && {made}")
        assert ran.code == 0, ran.errors


def change(shell: Shell, ways: dict[str, tuple[str, str, str]]) -> None:
    for name, (_, _, changed) in ways.items():
        ran = shell.shimmed(f"cd $ROOT/{name} && {changed}")
        assert ran.code == 0, (name, ran.errors)


def read(shell: Shell, names: list[str]) -> dict[str, str]:
    """The text of each, by the directory that it is in."""
    ran = shell.shimmed("cd $ROOT; for f in " + " ".join(names) + "; do cat $f; echo; done")
    assert ran.errors == b""
    texts = ran.output.decode().split()
    return {name.split("/")[0]: text for name, text in zip(names, texts, strict=True)}


def check(
    shells: tuple[Shell, Shell],
    storage: CountingFS,
    names: list[str],
    ways: dict[str, tuple[str, str, str]],
) -> None:
    """Read all, change all, read all, on both nodes."""
    for shell in (*shells, *shells):
        storage.reset()
        assert read(shell, names) == dict.fromkeys(ways, "old")
    assert storage.opens() == {}  # they are cached
    change(shells[0], ways)
    for shell in (*shells, *shells):
        storage.reset()
        assert read(shell, names) == dict.fromkeys(ways, "new")
        assert storage.total().opens == len(names)  # by the program, and by no agent
    with shells[0].cluster.connect() as job:
        assert job.files(shells[0].root).refresh().missed == []
    for shell in (*shells, *shells):
        storage.reset()
        assert read(shell, names) == dict.fromkeys(ways, "new")
    assert storage.opens() == {}


@pytest.fixture
def shells(
    cluster: holdfast.LocalCluster, storage: CountingFS, shell: Shell, tmp_path: Path
) -> tuple[Shell, Shell]:
    """Programs on the node of the change, and on another."""
    return shell, Shell(cluster, storage, tmp_path / "other", node=1)


def test_what_leads_to_a_file_changes(
    shells: tuple[Shell, Shell], backing: Path, storage: CountingFS
) -> None:
    make(backing, shells[0], WAYS)
    check(shells, storage, [f"{name}/{file}" for name, (_, file, _) in WAYS.items()], WAYS)


def test_a_root_changes(shells: tuple[Shell, Shell], backing: Path, storage: CountingFS) -> None:
    make(backing, shells[0], ROOTS)
    names = [f"{name}/{root}" for name, (_, root, _) in ROOTS.items()]
    for shell in shells:
        shell.roots = [storage.at / name for name in names]
    check(shells, storage, [f"{name}/f" for name in names], ROOTS)


def test_a_directory_that_is_a_root_under_two_names(
    shells: tuple[Shell, Shell], backing: Path, storage: CountingFS
) -> None:
    """Each reader knows one of the names, and whoever changes it both."""
    ways = {"one": ("ln -s . data", "", "mv real old && mv other real")}
    make(backing, shells[0], ways)
    roots = [storage.at / "one/data", storage.at / "one"]

    def read_all() -> list[dict[str, str]]:
        texts = []
        for shell in (*shells, *shells):
            for root in roots:
                shell.roots = [root]
                texts.append(read(shell, [f"{root.relative_to(storage.at)}/real/f"]))
        return texts

    assert read_all() == [{"one": "old"}] * 8
    shells[0].roots = roots
    change(shells[0], ways)
    assert read_all() == [{"one": "new"}] * 8


def test_what_hides_nothing_leaves_other_files_cached(
    shells: tuple[Shell, Shell], backing: Path, storage: CountingFS
) -> None:
    """Directories and files that come and go, also while links lead to files elsewhere."""
    ways = {"one": ("ln -s real link", "link/f", "")}
    make(backing, shells[0], ways)
    for reader in (*shells, *shells):
        assert read(reader, ["one/link/f", "one/other/f"])
    program = """cd $ROOT; for i in $(seq 50); do
mkdir made made/in && echo text > made/in/file && mv made/in/file made/file && rm made/file &&
rmdir made/in made || exit 1
done
"""
    assert shells[0].shimmed(program)[:3] == (0, b"", b"")
    storage.reset()
    for reader in (*shells, *shells):
        assert read(reader, ["one/link/f"]) == {"one": "old"}
    assert storage.opens() == {}


def test_what_cannot_succeed_takes_nothing_out_of_the_cache(
    shells: tuple[Shell, Shell], backing: Path, storage: CountingFS
) -> None:
    """`mv` and `ln` first try whether what they are given is a name, and not a directory."""
    ways = {"one": ("true", "real/f", "")}
    make(backing, shells[0], ways)
    for reader in (*shells, *shells):
        assert read(reader, ["one/real/f"])
    program = """echo text > new; mv new $ROOT/one/real
ln -s nowhere $ROOT; rmdir $ROOT $ROOT/one; rm $ROOT/one/real; exit 0
"""
    assert shells[0].shimmed(program).code == 0
    assert (backing / "one/real/new").exists()
    storage.reset()
    for reader in (*shells, *shells):
        assert read(reader, ["one/real/f"]) == {"one": "old"}
    assert storage.opens() == {}


def test_a_link_to_a_root_is_switched_under_a_program(
    shells: tuple[Shell, Shell], backing: Path, storage: CountingFS
) -> None:
    """It goes on to see what it calls by another name than the root's."""
    make(backing, shells[0], {"one": ("ln -s real cur", "cur/f", "")})
    shells[0].roots = [storage.at / "one/cur"]
    program = shells[0].start(
        """cd $ROOT/one/cur && cat f && cat f && ln -sfn other ../cur && echo && read line &&
cat f && cat f ../cur/f && cat $ROOT/one/cur/f""",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    with program:
        assert program.stdout.readline() == b"oldold\n"
        with shells[0].cluster.connect() as job:
            job.files(storage.at / "one/cur").refresh()
        program.stdin.write(b"\n")
        program.stdin.flush()
        assert program.stdout.read() == b"oldoldnewnew"
