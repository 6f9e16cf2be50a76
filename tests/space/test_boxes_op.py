"""Elements of cells, put together by an agent from the pieces that it has."""

from __future__ import annotations

import array
import mmap
import os
import struct
from collections.abc import Iterator, Sequence

import pytest

import holdfast
from holdfast import _core, errors
from holdfast.membership.rosters import roster_of
from holdfast.membership.view import Member

#: Of a cell of 8 x 20,000 doubles.
SHAPE = (8, 20_000)
CELL = b"0:8,0:20000"
Side = tuple[int, int]


@pytest.fixture
def agent() -> Iterator[holdfast.LocalCluster]:
    with holdfast.local_cluster(nodes=1, memory="128 MiB", disk="16 MiB") as cluster:
        yield cluster


@pytest.fixture
def job(agent: holdfast.LocalCluster) -> Iterator[holdfast.Job]:
    with agent.connect(0) as job:
        yield job


@pytest.fixture
def head(request: pytest.FixtureRequest, job: holdfast.Job) -> bytes:
    """A cell of the test's own, on the roster of all nodes."""
    roster = roster_of(job._connection.routing.live)
    job._connection.know(roster)
    job._connection.merge(owner(job))
    place = f"@space/{roster.id}/run:{request.node.name}/3+1/0.0/".encode()
    return place + CELL


def values() -> array.array[float]:
    return array.array("d", range(SHAPE[0] * SHAPE[1]))


def part(*sides: Side) -> bytes:
    """The bytes of a box of the cell."""
    (row, rows), (column, columns) = sides
    all_of = values()
    at = (r * SHAPE[1] + column for r in range(row, row + rows))
    return b"".join(all_of[i : i + columns].tobytes() for i in at)


def owner(job: holdfast.Job) -> Member:
    return job._connection.routing.live[0]


def put(job: holdfast.Job, head: bytes, sides: Sequence[Side], data: bytes, version: int) -> None:
    key = head + b"\0" + struct.pack(">Q", version)
    key += b"".join(struct.pack(">II", *side) for side in sides) + bytes(2)
    member = owner(job)
    job._connection.client.put([member.socket], [member.number], key, data)


def boxes(
    job: holdfast.Job,
    entries: Sequence[tuple[bytes, int, tuple[slice, slice]]],
    *,
    local: bool = False,
    member: int = 0,
) -> list[memoryview | list[tuple[tuple[int, ...], tuple[int, ...], int, int]] | int]:
    wanted = []
    for head, version, slices in entries:
        starts = [s.start for s in slices]
        steps = [s.step or 1 for s in slices]
        counts = [len(range(s.start, s.stop, s.step or 1)) for s in slices]
        wanted.append((head, version, starts, counts, steps))
    return job._connection.client.boxes(owner(job).socket, 8, wanted, local=local, member=member)


def test_bytes_come_packed_or_not_at_all(job: holdfast.Job, head: bytes) -> None:
    put(job, head, [(0, 4), (0, 20_000)], part((0, 4), (0, 20_000)), 3)
    put(job, head, [(4, 4), (0, 100)], part((4, 4), (0, 100)), 3)  # in the agent's heap
    entries = [
        (head, 3, (slice(2, 8, 3), slice(1, 100, 2))),
        (head, 3, (slice(0, 8), slice(0, 101))),
        (head, 2, (slice(0, 1), slice(0, 1))),
        (head, 3, (slice(1, 2), slice(19_000, 20_000))),
    ]
    every, beyond, before, last = boxes(job, entries)
    assert isinstance(every, memoryview)
    assert isinstance(last, memoryview)
    everything = values()
    expected = [everything[r * SHAPE[1] + c] for r in (2, 5) for c in range(1, 100, 2)]
    assert every.cast("d").tolist() == expected
    assert before == 0
    assert isinstance(beyond, int)
    assert beyond > 2
    assert boxes(job, entries)[1] == beyond  # the same parts
    assert bytes(last) == part((1, 1), (19_000, 1000))
    assert last.readonly


def test_descriptors_of_pieces_are_the_callers(job: holdfast.Job, head: bytes) -> None:
    whole = part((0, 8), (0, 20_000))
    put(job, head, [(0, 8), (0, 20_000)], whole, 1)
    before = len(os.listdir("/proc/self/fd"))
    (pieces,) = boxes(job, [(head, 1, (slice(3, 4), slice(0, 10)))], local=True)
    assert isinstance(pieces, list)
    ((starts, counts, descriptor, size),) = pieces
    assert (starts, counts, size) == ((0, 0), SHAPE, len(whole))
    with mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as mapped:
        assert mapped[:] == whole
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(descriptor, b"x")
    os.close(descriptor)
    assert len(os.listdir("/proc/self/fd")) == before


def test_other_values_of_a_point_are_refused(job: holdfast.Job, head: bytes) -> None:
    put(job, head, [(0, 4), (0, 100)], part((0, 4), (0, 100)), 1)
    put(job, head, [(3, 2), (0, 100)], part((3, 2), (0, 100)), 1)
    across = [(3, 4), (50, 20_000 - 50)]
    other = bytearray(part(*across))
    other[0] ^= 1  # in row 3, which is there
    with pytest.raises(errors.KeyExists, match=r"version 1 of 'run:.*' has other contents"):
        put(job, head, across, bytes(other), 1)
    put(job, head, across, bytes(other), 2)
    other = bytearray(part(*across))
    other[-1] ^= 1  # nobody has that one
    put(job, head, across, bytes(other), 1)


def test_what_cannot_be_is_refused(job: holdfast.Job, head: bytes) -> None:
    with pytest.raises(errors.BadInput, match="leaves its cell"):
        put(job, head, [(7, 2), (0, 1)], bytes(16), 1)
    with pytest.raises(errors.BadInput, match="0:1,0:3"):
        put(job, head, [(0, 1), (0, 3)], bytes(16), 1)
    with pytest.raises(errors.BadInput, match="leaves that cell"):
        boxes(job, [(head, 1, (slice(0, 9), slice(0, 1)))])
    with pytest.raises(errors.BadInput, match="1 to 4096 boxes"):
        boxes(job, [])
    client, socket = job._connection.client, owner(job).socket
    with pytest.raises(errors.BadInput, match="for each of at most 8 dimensions"):
        client.boxes(socket, 8, [(head, 1, [0, 0], [1, 1], [1])])


def test_another_member_does_not_answer(job: holdfast.Job, head: bytes) -> None:
    entry = (head, 1, (slice(0, 1), slice(0, 1)))
    number = owner(job).number
    assert boxes(job, [entry], member=number) == [0]
    with pytest.raises(errors.Unavailable):
        boxes(job, [entry], member=number + 1)


def test_the_index_of_simulated_nodes_has_one_writer_of_a_point() -> None:
    index = _core.ObjectIndex()
    keys = [
        b"@space/0/run:T/3+1/0.0/0:9\0" + bytes(8) + struct.pack(">II", *side) + bytes(2)
        for side in ((0, 5), (4, 5), (5, 4))
    ]
    assert index.reserve(keys[0], 5) is None
    with pytest.raises(errors.Busy, match="the box 4:9 of 'run:T'"):
        index.reserve(keys[1], 5)
    assert index.reserve(keys[2], 4) is None
    index.abandon(keys[0])
    index.abandon(keys[2])
    assert index.reserve(keys[1], 5) is None
