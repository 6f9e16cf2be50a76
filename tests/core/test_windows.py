"""Windows: C++ and Python agree on every key, and what a window promises of its owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.trio import TRIO

from holdfast.errors import BadInput, NotEnoughNodes
from holdfast.membership.owners import Owners
from holdfast.membership.rosters import roster_of
from holdfast.membership.view import COMPUTE, SPARE, STAGING, Entry, Member, State, View
from holdfast.placement.windows import LONGEST, Roster, Standing, WindowTable

#: More than are in any roster: some join later.
NODES = [f"node-{number}" for number in range(10)]


def member(
    number: int, life: int = 0, role: str = COMPUTE, host: str = "", rack: str = ""
) -> Member:
    return Member(
        node=NODES[number],
        number=100 * (life + 1) + number,
        started=life,
        address=f"tcp:{number}.{life}",
        socket="",
        pid=1,
        role=role,
        host=host,
        rack=rack,
    )


def key_of(
    roster: Roster, start: int, unit: int, units: int = 3, survive: int = 1, name: str = "v"
) -> bytes:
    place = f"{units}+{survive}/{start}.{unit}"
    return f"@space/{roster.id}/s:{name}/{place}/0:4".encode() + b"\0tail"


def plain(nodes: int, role: str = COMPUTE) -> Roster:
    return roster_of([member(number, role=role) for number in range(nodes)])


def owners_of(live: Sequence[Member], *rosters: Roster) -> Owners:
    return Owners(View(Entry(one, 0, State.ALIVE) for one in live), 8, (TRIO,), rosters)


def nodes(owners: Owners, key: bytes, copies: int = 16) -> list[str]:
    return [one.node for one in owners.of(key, copies)]


# ---- both are one function -----------------------------------------------------------------------

lives = st.tuples(
    st.sampled_from([*State, None]),
    st.integers(0, 2),
    st.sampled_from([COMPUTE, COMPUTE, STAGING, SPARE]),
    st.sampled_from(["", "h1", "h2", "node-3"]),
    st.sampled_from(["", "r1", "r2"]),
)


def view_of(drawn: Sequence[tuple[State | None, int, str, str, str]]) -> View:
    return View(
        Entry(member(number, life, role, host, rack), 0, state)
        for number, (state, last, role, host, rack) in enumerate(drawn)
        if state is not None
        for life in range(last + 1)
    )


rosters = st.builds(
    lambda order, size, role: Roster(
        tuple(NODES[number] for number in order[:size]), ("",) * size, ("",) * size, role
    ),
    st.permutations(range(9)),
    st.integers(1, 9),
    st.sampled_from(["compute", "staging"]),
)


@st.composite
def keys(draw: st.DrawFn, of: Sequence[Roster]) -> bytes:
    """Well-formed for the most part, and of a roster that is known."""
    roster = draw(st.sampled_from([*of, *of, *of, plain(3)]))
    units, survive = draw(st.integers(1, 5)), draw(st.integers(0, 4))
    start = draw(st.integers(0, len(roster.nodes) - 1))
    key = key_of(roster, start, draw(st.integers(0, units - 1)), units, survive)
    if draw(st.integers(0, 3)):
        return key
    old, new = draw(st.tuples(st.sampled_from(PARTS), st.sampled_from(ODD)))
    return draw(st.sampled_from([b"", b"\0x"])) + key.replace(old, new, 1)


#: What is replaced in a key, and by what.
PARTS = [b"@space/", b"/", b"/s:v", b"+", b".", b"/0:4", b"\0tail", b"1", b"2", b"3", b"0", b"a"]
ODD = [b"", b"/", b"//", b"+", b".", b"\0", b"\n", b"\xff", b"A", b"x", b"0", b"00", b"9", b"15"]
ODD += [b"16", b"999999999", b"1234567890", b"-1", b"@space/names/", b"@space/names", b" 1"]


@settings(max_examples=400)
@given(
    st.lists(lives, min_size=10, max_size=10).map(view_of),
    st.lists(rosters, max_size=3),
    st.sets(st.integers(0, 9), max_size=4),
    st.data(),
)
def test_both_agree_on_every_key(
    view: View, known: list[Roster], left_out: set[int], data: st.DataObject
) -> None:
    owners = Owners(view, 8, (TRIO,), known)
    oracle = WindowTable(
        known, [Standing(m.number, m.node, m.host, m.rack, m.role) for m in view.live()]
    )
    without = [one.number for one in view.live() if one.node in {NODES[i] for i in left_out}]
    for key in data.draw(st.lists(keys(known), min_size=5, max_size=15)):
        for count in (1, 2, 16, 30):
            found = owners.placement.owners(key, count)
            if key.startswith(b"@space/names/"):
                assert len(found) == min(count, len(view.owners_pool()))
                continue
            if not key.startswith(b"@space/"):
                continue
            assert owners.space(key) is None
            assert found == oracle.owners(key, count)
            assert [one.number for one in owners.of(key, count)] == found
            assert owners.placement.owners(key, count, without) == oracle.owners(
                key, count, without
            )


@settings(max_examples=200)
@given(
    st.lists(lives, min_size=10, max_size=10).map(view_of), rosters, st.data(), st.integers(0, 4)
)
def test_who_is_left_out_counts_as_dead(
    view: View, roster: Roster, data: st.DataObject, survive: int
) -> None:
    live = view.live()
    gone = data.draw(st.lists(st.sampled_from(live), unique=True)) if live else []
    left = Owners(View(Entry(m, 0, State.ALIVE) for m in live if m not in gone), 8, (), (roster,))
    everybody = Owners(view, 8, (), (roster,))
    size = len(roster.nodes)
    key = key_of(roster, data.draw(st.integers(0, size - 1)), 1, survive=survive)
    without = [one.number for one in gone]
    assert everybody.placement.owners(key, 16, without) == left.placement.owners(key, 16)


# ---- what owners are -----------------------------------------------------------------------------


def test_a_unit_stands_on_its_slot_and_its_copies_behind_the_units_of_its_stripe() -> None:
    roster = plain(9)
    owners = owners_of([member(number) for number in range(10)], roster)
    for start in range(9):
        for unit in range(3):
            places = [start + unit, start + 3, start + 4]
            expected = [roster.nodes[place % 9] for place in places]
            assert nodes(owners, key_of(roster, start, unit, survive=2)) == expected
            assert nodes(owners, key_of(roster, start, unit, survive=2), 2) == expected[:2]
            assert nodes(owners, key_of(roster, start, unit, survive=0)) == expected[:1]


@settings(max_examples=200)
@given(rosters, st.sets(st.integers(0, 9)), st.integers(1, 5), st.integers(0, 3))
def test_owners_are_distinct_and_who_lives_keeps_its_place(
    roster: Roster, dead: set[int], units: int, survive: int
) -> None:
    size = len(roster.nodes)
    live = [member(number, role=roster.role) for number in range(10) if number not in dead]
    owners = owners_of(live, roster)
    alive = {one.node for one in live}
    for start in range(size):
        for unit in range(units):
            found = nodes(owners, key_of(roster, start, unit, units, survive))
            assert len(set(found)) == len(found) == min(survive + 1, len(live))
            assert set(found) <= alive
            places = [start + unit, *(start + units + i for i in range(survive))]
            slots = [roster.nodes[place % size] for place in places]
            if len(set(slots)) == len(slots) == len(found):
                assert all(
                    own == slot for own, slot in zip(found, slots, strict=True) if slot in alive
                )


def test_all_units_of_a_stripe_share_their_copies_and_who_stands_in_for_them() -> None:
    roster = plain(8)
    live = [member(number) for number in range(10)]
    for dead in (set(), {roster.nodes[4]}, {roster.nodes[4], roster.nodes[5]}):
        owners = owners_of([one for one in live if one.node not in dead], roster)
        for start in range(8):
            window = {roster.nodes[(start + unit) % 8] for unit in range(3)}
            if dead & window:
                continue  # another one stands in for a unit, too
            copies = {
                tuple(nodes(owners, key_of(roster, start, unit, survive=2))[1:])
                for unit in range(3)
            }
            assert len(copies) == 1


def test_only_what_stood_on_a_dead_node_moves_to_many_and_back() -> None:
    roster = plain(9)
    live = [member(number) for number in range(9)]
    before = owners_of(live, roster)
    after = owners_of(live[:4] + live[5:], roster)
    again = owners_of([*live[:4], member(4, life=1), *live[5:]], roster)
    taking = Counter[str]()
    for key in (
        key_of(roster, s, u, name=f"v{n}") for n in range(9) for s in range(9) for u in (0, 1)
    ):
        was, is_, back = nodes(before, key), nodes(after, key), nodes(again, key)
        assert back == was
        assert [own for own in is_ if own in was] == [own for own in was if own != "node-4"]
        taking.update(set(is_) - set(was))
    assert set(taking) == {one.node for one in live} - {"node-4"}


def test_spares_stand_in_first_then_nodes_outside_the_window_then_those_of_it() -> None:
    roster = plain(6)
    live = [member(number) for number in range(1, 6)]
    key = key_of(roster, 0, 0, units=3, survive=1)  # slots 0 to 3; 0 is dead
    spare, joined = member(8, role=SPARE), member(9)
    assert nodes(owners_of([*live, spare, joined], roster), key)[0] == "node-8"
    assert nodes(owners_of([*live, joined], roster), key)[0] in {"node-4", "node-5", "node-9"}
    inside = [one for one in live if one.node not in ("node-4", "node-5")]
    assert nodes(owners_of(inside, roster), key)[0] in {"node-1", "node-2"}
    assert nodes(owners_of(live[2:3], roster), key) == ["node-3"]
    assert nodes(owners_of([], roster), key) == []


def test_only_staging_nodes_and_spares_stand_in_for_staging_nodes() -> None:
    roster = plain(3, STAGING)
    key = key_of(roster, 0, 0, units=1, survive=1)
    live = [member(1, role=STAGING), member(5), member(6)]
    assert nodes(owners_of(live, roster), key) == ["node-1"]
    assert nodes(owners_of([*live, member(2, role=STAGING)], roster), key) == ["node-2", "node-1"]
    assert nodes(owners_of([*live, member(7, role=SPARE)], roster), key) == ["node-7", "node-1"]


@pytest.mark.parametrize("far", ["host", "rack"])
def test_who_stands_in_is_on_another_host_and_in_another_rack_if_there_is_one(far: str) -> None:
    roster = plain(8)

    def at(number: int, place: str) -> Member:
        return member(number, host=place) if far == "host" else member(number, rack=place)

    for start in range(8):
        key = key_of(roster, start, 0, units=2, survive=1)
        dead, copy = start, (start + 2) % 8
        for other in range(8):
            if other in (dead, copy, (start + 1) % 8):
                continue
            live = [
                at(number, "b" if number == other else "a") for number in range(8) if number != dead
            ]
            found = nodes(owners_of(live, roster), key)
            assert found == [NODES[other], NODES[copy]]


def test_a_key_of_an_unknown_roster_or_of_none_has_no_owners() -> None:
    known, unknown = plain(4), plain(5)
    owners = owners_of([member(number) for number in range(5)], known)
    good = key_of(known, 1, 1)
    assert len(nodes(owners, good)) == 2
    assert nodes(owners, key_of(unknown, 1, 1)) == []
    text = good.decode()
    bad = [
        text.replace("3+1", "0+1"),
        text.replace("3+1", "03+1"),
        text.replace("3+1", "3+16"),
        text.replace("1.1", "4.1"),  # no such slot
        text.replace("1.1", "1.3"),  # no such unit
        text.replace("/s:v/", "//"),
        text.replace("/0:4", ""),
        text.replace(known.id, known.id.upper() if known.id.upper() != known.id else "ABCDEFAB"),
        text[:20] + "\0" + text[20:],
        "@space/",
        "@space/names",
    ]
    for key in bad:
        assert nodes(owners, key.encode()) == [], key
    assert len(nodes(owners, b"@space/names/run", 3)) == 3
    assert nodes(owners_of([member(0)]), good) == []


def test_spares_are_known_where_they_may_stand_in_and_only_there() -> None:
    live = [member(0), member(1), member(8, role=SPARE)]
    view = View(Entry(one, 0, State.ALIVE) for one in live)
    assert sorted(Owners(view, 8).members) == [100, 101]
    assert sorted(owners_of(live, plain(2)).members) == [100, 101, 108]
    assert nodes(owners_of(live, plain(2)), b"key", 3).count("node-8") == 0


def most_of_mean(cells: int, count: int, units: int, survive: int, gone: Collection[str]) -> float:
    names = [f"n{number}" for number in range(count)]
    roster = Roster(tuple(names), ("",) * count, ("",) * count, "compute")
    live = [
        Standing(number, name, "", "", COMPUTE)
        for number, name in enumerate(names)
        if name not in gone
    ]
    table = WindowTable([roster], live)
    stripes = cells // units
    stride = max(1, count // stripes)
    load = Counter[int]()
    for stripe in range(stripes):
        start = (stripe * stride + 11) % count
        for unit in range(units):
            load.update(table.owners(key_of(roster, start, unit, units, survive), 16))
    return max(load.values()) / (sum(load.values()) / len(live))


def test_load_is_even_also_when_nodes_have_died() -> None:
    assert most_of_mean(1024, 64, 4, 1, ()) <= 1.15
    assert most_of_mean(64, 4, 4, 1, ()) <= 1.15
    assert most_of_mean(1024, 64, 4, 1, ("n3", "n40")) <= 1.5


# ---- rosters -------------------------------------------------------------------------------------


def test_neighbours_in_a_roster_differ_in_rack_and_then_in_host() -> None:
    places = [(f"h{number // 2}", f"r{number // 4}") for number in range(8)]
    made = roster_of([member(n, host=host, rack=rack) for n, (host, rack) in enumerate(places)])
    assert sorted(made.nodes) == NODES[:8]
    assert all(one != other for one, other in pairwise(made.racks))
    in_one_rack = [host for host, rack in zip(made.hosts, made.racks, strict=True) if rack == "r0"]
    assert all(a != b for a, b in pairwise(in_one_rack))
    assert list(zip(made.hosts, made.racks, strict=True)) == [
        places[NODES.index(node)] for node in made.nodes
    ]
    assert roster_of([member(n) for n in (3, 1, 2)]).nodes == ("node-1", "node-2", "node-3")


def test_staging_nodes_are_the_roster_if_there_are_any_and_spares_never() -> None:
    live = [member(0), member(1, role=STAGING), member(2, role=STAGING), member(3, role=SPARE)]
    made = roster_of(live)
    assert (made.nodes, made.role) == (("node-1", "node-2"), "staging")
    made = roster_of([live[0], live[3]])
    assert (made.nodes, made.role) == (("node-0",), "compute")
    with pytest.raises(NotEnoughNodes, match="none is alive"):
        roster_of([live[3]])


def test_a_roster_is_named_by_its_hash_and_read_as_it_was_written() -> None:
    made = plain(4)
    assert Roster.decode(made.encode()) == made
    assert len(made.id) == 8
    assert len({plain(n).id for n in range(1, 9)}) == 8
    assert plain(4, STAGING).id != made.id
    text = made.encode()
    for bad in (
        b"",
        b"\xc1",
        text + b"\0",
        text[:1] + b"\xdc\0\x04" + text[2:],  # the same in more bytes
        Roster.encode(made).replace(b"node-1", b"node-2"),
        b"\x94\x90\x90\x90\xa7compute",
    ):
        with pytest.raises(BadInput, match="cannot decode a roster"):
            Roster.decode(bad)


def test_a_roster_that_would_be_too_long_is_refused() -> None:
    many = [
        Member(node=f"n{i:0250}", number=i, started=0, address="", socket="", pid=1)
        for i in range(1100)
    ]
    assert len(roster_of(many[:1000]).encode()) <= LONGEST
    with pytest.raises(BadInput, match="256 KiB"):
        roster_of(many)
