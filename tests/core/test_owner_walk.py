"""Whom readers ask for a file when members fail: the core's walk against a plain model of it."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from holdfast import _core
from holdfast.membership.owners import Owners
from holdfast.membership.view import SPARE, Entry, Member, State, View

NODES = [f"node-{n}" for n in range(6)]
KEY = _core.FILE_PREFIX + b"/data/file"
NOW = 100.0


def view(dead: Collection[str], spares: Collection[str] = ()) -> View:
    """Who lives, and who died."""
    return View(
        Entry(
            Member(
                node=node,
                number=number,
                started=1,
                address=f"tcp:{node}",
                socket="",
                pid=1,
                role=SPARE if node in spares else "compute",
            ),
            1,
            State.DEAD if node in dead else State.ALIVE,
        )
        for number, node in enumerate(NODES, 1)
    )


@given(
    policy=st.sampled_from(_core.OnFailure),
    dead=st.sets(st.sampled_from(NODES)),
    failing=st.sets(st.sampled_from(NODES)),
    left_alone=st.sets(st.sampled_from(NODES)),
)
def test_each_policy_asks_whom_it_says(
    policy: _core.OnFailure, dead: set[str], failing: set[str], left_alone: set[str]
) -> None:
    trust = _core.Trust(1, 5.0, 0.5, 2.0)
    for node in left_alone:
        trust.failed(NODES.index(node) + 1, False, NOW)
    order = _core.Ring(NODES).owners(KEY, len(NODES))
    live = [node for node in order if node not in dead]
    candidates = live[: _core.MOST_ASKED] if policy is _core.OnFailure.RECACHE else order[:1]

    owners = Owners(view(dead), 100)
    walk = _core.OwnerWalk(owners.placement, KEY, policy)
    failures = 0
    given_by = None
    for node in candidates:
        if node in dead | left_alone:
            failures += 1
            continue
        number = walk.next(trust, NOW)
        assert number is not None
        assert owners.members[number].node == node
        assert walk.stands_in == (failures > 0)
        if node not in failing:
            given_by = node
            break
        walk.failed()
        failures += 1
    if given_by is None:
        assert walk.next(trust, NOW) is None
    assert walk.aborts == (policy is _core.OnFailure.ABORT and given_by is None)
    if walk.aborts:
        assert walk.reason.startswith(f"{order[0]} owns the file and failed")


def test_spares_own_no_files_dead_or_alive() -> None:
    trust = _core.Trust(1, 5.0, 0.5, 2.0)
    spares = NODES[:3]
    pool = _core.Ring(NODES[3:]).owners(KEY, 1)
    for dead in ([], NODES[:1]):
        owners = Owners(view(dead, spares), 100)
        assert not owners.lost
        for policy in _core.OnFailure:
            number = _core.OwnerWalk(owners.placement, KEY, policy).next(trust, NOW)
            assert number is not None
            assert [owners.members[number].node] == pool
