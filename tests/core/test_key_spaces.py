"""Key spaces: C++ and Python agree on the owners of every key, whatever tables there are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.trio import TRIO

from holdfast import _core
from holdfast.errors import BadInput
from holdfast.membership.key_spaces import fitting
from holdfast.membership.owners import Owners
from holdfast.membership.view import SPARE, Entry, Member, State, View
from holdfast.placement.ring import Ring
from holdfast.placement.slot_table import SlotTable

NODES = [f"node-{number}" for number in range(9)]


class Drawn:
    """A key space whose slots were drawn: numbers of nodes, of whom some are not there."""

    restore_after = 0.0
    may_leave_out = 2

    def __init__(self, prefix: bytes, slots: list[list[int]]) -> None:
        self.prefix = prefix
        self._slots = slots

    def slots(self, members: Sequence[Member]) -> list[list[Member]]:
        by_node = {member.node: member for member in members}
        return [[by_node[NODES[n]] for n in slot if NODES[n] in by_node] for slot in self._slots]


text = st.binary(max_size=3).filter(lambda prefix: b"\0" not in prefix)
prefixes = text.map(lambda end: b"@s" + end)
spaces = st.builds(
    Drawn,
    prefixes,
    st.lists(st.lists(st.integers(0, 8), max_size=9, unique=True), max_size=5),
)
keys = st.one_of(
    st.binary(max_size=12), st.builds(lambda a, b: a + b, prefixes, st.binary(max_size=6))
)


def view(states: Sequence[State | None], spares: Sequence[bool] = ()) -> View:
    """Return a view of the nodes that have a state."""
    spare = [*spares, *[False] * len(NODES)]
    return View(
        Entry(
            Member(
                node=node,
                number=100 + number,
                started=0,
                address=node,
                socket=node,
                pid=1,
                role=SPARE if spare[number] else "compute",
            ),
            0,
            state,
        )
        for number, (node, state) in enumerate(zip(NODES, states, strict=True))
        if state is not None
    )


views = st.builds(
    view,
    st.lists(st.sampled_from([*State, None]), min_size=9, max_size=9),
    st.lists(st.booleans(), min_size=9, max_size=9),
)


@settings(max_examples=300)
@given(
    views,
    st.lists(spaces, max_size=4, unique_by=lambda space: space.prefix),
    st.lists(keys, max_size=20),
    st.integers(1, 20),
    st.sets(st.integers(0, 8), max_size=3),
)
def test_both_agree_on_every_key(
    seen: View, drawn: list[Drawn], asked: list[bytes], points: int, without: set[int]
) -> None:
    owners = Owners(seen, points, [*drawn, TRIO])
    ring = Ring([member.node for member in seen.owners_pool()], points)
    tables = {
        space.prefix: SlotTable(
            space.prefix, [[member.node for member in slot] for slot in space.slots(seen.live())]
        )
        for space in (*drawn, TRIO)
    }
    left_out = {NODES[number] for number in without}
    numbers = [100 + number for number in without]
    for key in (*asked, *(TRIO.prefix + key for key in asked)):
        space = fitting([*drawn, TRIO], key)
        assert owners.space(key) is space
        for count in (1, 2, 9, 30):
            found = [member.node for member in owners.of(key, count)]
            around = [owners.members[n].node for n in owners.placement.owners(key, count, numbers)]
            if space is None:
                assert found == around == ring.owners(key, count)
            else:
                assert found == tables[space.prefix].owners(key, count)
                assert around == tables[space.prefix].owners(key, count, left_out)
            assert owners.of(key + b"\0version", count) == owners.of(key + b"\0", count)


def test_the_longest_prefix_counts_whatever_the_order() -> None:
    seen = view([State.ALIVE] * 9)
    long, short = Drawn(b"@sab", [[1]]), Drawn(b"@s", [[2]])
    for drawn in ([long, short], [short, long]):
        owners = Owners(seen, 8, drawn)
        assert [m.node for m in owners.of(b"@sabc", 3)] == ["node-1"]
        assert [m.node for m in owners.of(b"@sa", 3)] == ["node-2"]
        assert len(owners.of(b"@a", 3)) == 3
        found = [owners.space(key) for key in (b"@sabc", b"@sa", b"@a")]
        assert found == [long, short, None]


def test_a_spare_in_a_slot_is_an_owner_and_none_on_the_ring() -> None:
    seen = view([State.ALIVE] * 9, [True] * 8 + [False])
    owners = Owners(seen, 8, [Drawn(b"@s", [[0, 8]])])
    assert [m.node for m in owners.of(b"@s/key", 2)] == ["node-0", "node-8"]
    assert [m.node for m in owners.of(b"key", 2)] == ["node-8"]
    assert sorted(owners.members) == [100, 108]


def test_no_owner_was_lost_with_a_spare() -> None:
    states = [State.ALIVE] * 7 + [State.DEAD] * 2
    owners = Owners(view(states, [False] * 8 + [True]), 8)
    assert owners.lost == {"node-7"}


def test_groups_move_only_where_somebody_has_gone() -> None:
    all_live = Owners(view([State.ALIVE] * 9), 8, [TRIO])
    without = Owners(view([State.ALIVE] * 8 + [State.DEAD]), 8, [TRIO])
    moved = 0
    for number in range(500):
        key = b"@trio/%d" % number
        before, after = all_live.of(key, 3), without.of(key, 3)
        stays = [member for member in before if member.node != "node-8"]
        assert [member for member in after if member in before] == stays
        moved += stays != before
    assert 50 < moved < 300


@pytest.mark.parametrize(
    ("prefix", "slots", "reason"),
    [
        (b"", [], "no file begins with"),
        (b"@f", [[1]], "no file begins with"),
        (b"@file/data", [[1]], "no file begins with"),
        (b"@a\0b", [[1]], "zero byte"),
        (b"@a", [[1, 2], [3, 1, 3]], "named twice"),
    ],
)
def test_bad_tables_are_refused(prefix: bytes, slots: list[list[int]], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        _core.SlotTable(prefix, slots)


def test_two_tables_of_one_prefix_are_refused() -> None:
    table = _core.SlotTable(b"@a", [[1]])
    with pytest.raises(BadInput, match="two key spaces"):
        _core.Placement(_core.Ring(["n"]), [1], [""], identity=1, tables=[table, table])
