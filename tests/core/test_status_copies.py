"""What `holdfast status` says of copies when nodes were lost."""

from __future__ import annotations

import pytest
from support.trio import TRIO

from holdfast import services
from holdfast.cli.status import StatusReport, _copies
from holdfast.client.survey import NodeStatus


def report(*lost: str, died_together: tuple[tuple[str, ...], ...] = ()) -> StatusReport:
    roles = {"node-0": "compute", "node-1": "compute", "node-2": "spare", "node-3": "spare"}
    nodes = [
        NodeStatus(
            node=node,
            state="dead" if node in lost else "alive",
            answer="gone" if node in lost else "up",
            number=1,
            incarnation=0,
            role=role,
            host="",
            rack="",
            pid=1,
            address="",
        )
        for node, role in roles.items()
    ]
    return StatusReport(
        session="session",
        created=0.0,
        window=1.0,
        under_replicated=0,
        missing_bytes=0,
        partition_wait_left=0.0,
        views=1,
        nodes=nodes,
        lost=[*lost],
        trees={},
        died_together=died_together,
    )


ALL = "All objects have the requested number of copies."
LEFT = "All remaining objects have the requested number of copies."
SPARE = "Objects with their only copy on node-2 may be lost."


def test_a_spare_that_was_lost_takes_nothing_along_where_all_keys_lie_on_the_ring() -> None:
    assert _copies(report()) == [ALL]
    assert _copies(report("node-2")) == [ALL]
    assert _copies(report("node-1", "node-2"))[0] == LEFT


def test_a_spare_that_may_have_stood_in_is_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "KEY_SPACES", (TRIO,))
    assert _copies(report()) == [ALL]
    assert _copies(report("node-2")) == [LEFT, SPARE]
    left, together = _copies(report("node-2", "node-3", died_together=(("node-2", "node-3"),)))
    assert left == LEFT
    assert "2 copies or fewer may be lost: node-2, node-3 died" in together
