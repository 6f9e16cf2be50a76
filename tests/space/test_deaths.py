"""Nodes die between a put and a get, and while somebody puts: every byte is compared."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from support.waits import wait_for

import holdfast
from holdfast.errors import NotYet, Unavailable
from holdfast.space.elements import Array
from holdfast.space.space import Space

WHOLE = np.random.default_rng(21).random((40, 40, 40))


@pytest.fixture
def nodes() -> int:
    return 4


@pytest.fixture
def cluster(nodes: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[holdfast.LocalCluster]:
    """Nodes that notice a death in a second."""
    monkeypatch.setenv("HOLDFAST_PROBE_PERIOD", "0.1 s")
    with holdfast.local_cluster(nodes=nodes, memory="64 MiB", disk="64 MiB") as started:
        yield started


@pytest.fixture
def space(job: holdfast.Job) -> Space:
    return job.space("run")


def define(space: Space, survive: int) -> None:
    space.define("T", WHOLE.shape, "f8", dims="zyx", survive=survive, cell=(16, 16, 16))


def same(found: Array, wanted: Array) -> bool:
    return found.tobytes() == wanted.tobytes()


def test_a_death_between_put_and_get(cluster: holdfast.LocalCluster, space: Space) -> None:
    define(space, survive=1)
    space.put("T", 0, WHOLE)
    cluster.kill(2)
    for _ in range(2):  # nobody may have noticed yet; then it is known
        assert same(space.get("T", 0), WHOLE)
        assert same(space["T", 0][3:37:2, ::-1], WHOLE[3:37:2, ::-1].copy())
        wait_for(lambda: deaths(cluster) == 1, "nobody noticed")
    with pytest.raises(NotYet):
        space.get("T", 1)


def test_a_stopped_node_is_gone_around(cluster: holdfast.LocalCluster, space: Space) -> None:
    define(space, survive=1)
    space.put("T", 0, WHOLE)
    cluster.stop(2)
    assert same(space.get("T", 0), WHOLE)
    cluster.resume(2)
    assert same(space.get("T", 0), WHOLE)


def test_after_a_death_nobody_knows_whether_a_variable_was_defined(
    cluster: holdfast.LocalCluster, space: Space
) -> None:
    define(space, survive=1)
    cluster.kill(1)
    wait_for(lambda: deaths(cluster) == 1, "nobody noticed")
    with pytest.raises(Unavailable, match=r"if it was never there: space `run` has no variable"):
        space.get("U", 0)
    space.define("U", 3, "i4")
    with cluster.connect() as job:
        assert job.space("run")["U"].shape == (3,)


def test_two_of_four_die_where_two_deaths_are_survived(
    cluster: holdfast.LocalCluster, space: Space
) -> None:
    define(space, survive=2)
    space.put("T", 0, WHOLE)
    cluster.kill(1)
    cluster.kill(3)
    assert same(space.get("T", 0), WHOLE)
    assert same(space.get("T", 0, np.s_[5:30, :, 17:18], halo=2), WHOLE[3:32, :, 15:20].copy())


def test_when_all_holders_of_a_cell_are_dead_they_are_named(
    cluster: holdfast.LocalCluster, space: Space
) -> None:
    define(space, survive=1)
    space.put("T", 0, WHOLE)
    cells = space.cells("T")
    lost = {"node-1", "node-2"}
    gone = [cell for cell in cells if set(cell.nodes) == lost]
    kept = [cell for cell in cells if not set(cell.nodes) <= lost]
    assert gone
    assert kept
    cluster.kill(1)
    cluster.kill(2)
    for cell in gone:
        with pytest.raises(Unavailable, match="version 0 of `T` was not found") as told:
            space.get("T", 0, cell.box)
        assert "node-1" in str(told.value)
        assert "node-2" in str(told.value)
    for cell in kept:
        assert same(space.get("T", 0, cell.box), WHOLE[cell.box].copy())


def damage(cluster: holdfast.LocalCluster, node: int) -> None:
    """Change some bytes of each piece that a node has in a file."""
    for path in cluster.nodes[node].tiers.in_memory():
        os.chmod(path, 0o600)
        with open(path, "r+b") as file:
            file.seek(12_345)
            file.write(b"EVIL")


@pytest.mark.parametrize("reader", [0, 1, 2, 3])
def test_copies_that_went_bad_are_not_read_even_on_their_own_node(
    cluster: holdfast.LocalCluster, space: Space, reader: int
) -> None:
    space.define("T", WHOLE.shape, "f8", survive=1, cell=(40, 40, 40))
    space.put("T", 0, WHOLE)
    (cell,) = space.cells("T")
    damage(cluster, int(cell.nodes[0].removeprefix("node-")))
    with cluster.connect(reader) as job:
        for _ in range(3):
            assert same(job.space("run").get("T", 0), WHOLE)


def test_what_went_bad_was_put_all_the_same(cluster: holdfast.LocalCluster, space: Space) -> None:
    space.define("T", WHOLE.shape, "f8", survive=0, cell=(40, 40, 40))
    space.put("T", 0, WHOLE)
    (cell,) = space.cells("T")
    damage(cluster, int(cell.nodes[0].removeprefix("node-")))
    for _ in range(3):
        with pytest.raises(Unavailable, match=rf"{cell.nodes[0]} \(a copy was damaged\)"):
            space.get("T", 0)
    with pytest.raises(NotYet):
        space.get("T", 1)


def test_what_was_put_while_its_owner_counted_as_dead_is_found(
    cluster: holdfast.LocalCluster, space: Space
) -> None:
    define(space, survive=0)
    cluster.stop(2)
    space.put("T", 0, WHOLE)  # others stand in
    cluster.resume(2)
    routing = space._connection.routing
    for _ in range(200):
        try:
            assert same(space.get("T", 0), WHOLE)
        except Unavailable:
            assert not {"node-2"}.isdisjoint({one.node for one in routing.lost})
        space._connection.refresh()


def test_parts_on_different_nodes_are_not_called_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_PROBE_PERIOD", "0.1 s")
    monkeypatch.setenv("HOLDFAST_RESTORE_RATE", "20 KiB/s")
    with (
        holdfast.local_cluster(nodes=4, memory="64 MiB", disk="64 MiB") as cluster,
        cluster.connect() as job,
    ):
        space, values = job.space("run"), np.random.default_rng(1).random((64, 64, 64))
        space.define("T", (256, 64, 64), "f8", survive=1, cell=(64, 64, 64))
        cell = next(one for one in space.cells("T") if "node-0" not in one.nodes)
        first, second = (int(node.removeprefix("node-")) for node in cell.nodes)
        low = cell.box[0].start
        for away, rows in ((first, range(0, 32, 2)), (second, range(32, 64, 2))):
            cluster.stop(away)
            for row in rows:
                space.put("T", 0, values[row : row + 2], at=(low + row, 0, 0))
            cluster.resume(away)
            wait_for(lambda: job._connection.refresh() or len(job.nodes) == 4, "it stays away")
        for box in (np.s_[low : low + 32], np.s_[low + 32 : low + 64], np.s_[low : low + 64]):
            for _ in range(10):
                try:
                    found = space.get("T", 0, (box,))
                except Unavailable:
                    continue
                assert same(found, values[box.start - low : box.stop - low].copy())


def test_puts_ride_through_the_death_of_an_owner(
    cluster: holdfast.LocalCluster, space: Space
) -> None:
    define(space, survive=1)
    space.put("T", 0, WHOLE)
    cluster.kill(3)
    space.put("T", 1, WHOLE + 1)  # nobody has noticed yet
    assert same(space.get("T", 1), WHOLE + 1)
    assert same(space.get("T", 0), WHOLE)
    assert all(len(set(cell.nodes) - {"node-3"}) == 2 for cell in space.cells("T"))
    cluster.restart(3)
    with cluster.connect(3) as job:
        other = job.space("run")
        assert same(other.get("T", 1), WHOLE + 1)
        other.put("T", 2, WHOLE + 2)
    assert same(space.get("T", 2), WHOLE + 2)


DEFINE = """
import sys, holdfast
job = holdfast.connect(session=sys.argv[1], run_dir=sys.argv[2])
space = job.space("both")
for line in sys.stdin:  # all begin at once
    name, dtype = line.split()
    try:
        space.define(name, (8, 8), dtype)
        print(name, dtype)
    except holdfast.errors.KeyExists as error:
        print(name, "taken:", error)
"""


def test_two_programs_define_at_once(cluster: holdfast.LocalCluster) -> None:
    arguments = [cluster.directory.name, str(cluster.directory.parent)]
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", DEFINE, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    wanted = [
        [f"same{n} f8\n" for n in range(10)] + [f"other{n} {kind}\n" for n in range(10)]
        for kind in ("f4", "i4")
    ]
    for program, lines in zip(programs, wanted, strict=True):
        assert program.stdin
        program.stdin.write("".join(lines))
        program.stdin.flush()
    told = [program.communicate(timeout=60)[0].splitlines() for program in programs]
    assert [program.returncode for program in programs] == [0, 0]
    for n in range(10):
        assert all(f"same{n} f8" in lines for lines in told)
    with cluster.connect() as job:
        space = job.space("both")
        for n in range(10):
            kind = space[f"other{n}"].dtype
            assert kind in {"<f4", "<i4"}
            won = [lines for lines in told if f"other{n} {kind[1:]}" in lines]
            lost = [line for lines in told for line in lines if line.startswith(f"other{n} taken")]
            assert len(won) == len(lost) == 1
            assert f"is defined already, with dtype {kind!r}, not" in lost[0]


def deaths(cluster: holdfast.LocalCluster) -> int:
    """How many deaths node 0 knows of."""
    with cluster.connect() as job:
        return len(job._connection.routing.lost)
