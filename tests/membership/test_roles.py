"""Which nodes are for staging, which are spares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadInput
from holdfast.membership.view import assign_roles

NODES = ["n1", "n10", "n2", "n9"]  # in an order that is not that of their names


def test_the_last_are_spares_and_those_before_them_staging_nodes() -> None:
    assert assign_roles(NODES, 2, 1) == {"n10": "staging", "n2": "staging", "n9": "spare"}
    assert assign_roles(NODES, 0, 3) == dict.fromkeys(NODES[1:], "spare")
    assert assign_roles(NODES, 4, 0) == dict.fromkeys(NODES, "staging")
    assert assign_roles(NODES, 0, 0) == {}


@pytest.mark.parametrize(
    ("staging", "spares", "message"),
    [
        (3, 2, "the session has 4 nodes, too few for 3 staging nodes and 2 spares; ask for fewer"),
        (5, 0, "too few for 5 staging nodes and 0 spares"),
        (0, 5, "too few for 0 staging nodes and 5 spares"),
        (0, 4, "the session has 4 nodes; with 4 spares no node would be left to store"),
    ],
)
def test_too_many_are_refused(staging: int, spares: int, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        assign_roles(NODES, staging, spares)
    assert message in str(caught.value)


@given(st.integers(1, 50), st.integers(0, 50), st.integers(0, 50))
def test_as_many_as_were_asked_for_in_order_or_none(count: int, staging: int, spares: int) -> None:
    nodes = [f"n{i}" for i in range(count)]
    if staging + spares > count or spares == count:
        with pytest.raises(BadInput):
            assign_roles(nodes, staging, spares)
        return
    roles = assign_roles(nodes, staging, spares)
    compute = count - staging - spares
    told = [roles.get(node, "compute") for node in nodes]
    assert told == ["compute"] * compute + ["staging"] * staging + ["spare"] * spares
