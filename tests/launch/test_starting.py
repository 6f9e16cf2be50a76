"""What is heard of agents that do not start, through a launcher that has its own words for it."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from support.cores import core_in
from support.waits import wait_for

import holdfast
from holdfast import _core, errors
from holdfast.client import contacts
from holdfast.config import load
from holdfast.launch import agents, starter
from holdfast.launch.starter import Starter, collect
from holdfast.membership.view import Member
from holdfast.session import session as sessions
from holdfast.session.node import Orders, Ready
from holdfast.session.session import Session


def complaints(said: str) -> dict[str, str]:
    """What a launcher says of tasks that ended, and the last line that is not its own."""
    last = starter.telling([line for line in said.splitlines() if "launcher:" not in line])
    return dict.fromkeys(re.findall(r"launcher: (\w+) exited", said), f"exited; {last}")


@pytest.mark.parametrize("end", ["exec sleep 60", "exit 1"])
def test_the_last_lines_of_an_agent_are_waited_for(tmp_path: Path, end: str) -> None:
    script = f"echo launcher: one exited >&2; sleep 0.2; echo error: no room >&2; {end}"
    orders = Orders(
        session=Session(
            name="test", created=0.0, virtual_nodes=1, tree_largest=1, tree_ttl=0.0, launcher="test"
        ),
        job_key="00",
        config=load().config,
    )
    log = tmp_path / "log"
    starter = Starter(["one"], ["bash", "-c", script], orders, log, None, complaints)
    try:
        outcome = collect([starter], 30)
    finally:
        starter.discard()
    assert not outcome.ready
    assert outcome.failed["one"].error == "exited; error: no room"


def test_who_says_nothing_is_late(tmp_path: Path) -> None:
    orders = Orders(
        session=Session(
            name="test", created=0.0, virtual_nodes=1, tree_largest=1, tree_ttl=0.0, launcher="test"
        ),
        job_key="00",
        config=load().config,
    )
    starter = Starter(["one"], ["sleep", "60"], orders, tmp_path / "log")
    try:
        outcome = collect([starter], 0.5)
    finally:
        starter.discard()
    assert "it was not ready within 0.5 s" in outcome.failed["one"].error


#: An agent whose loop does not run yet when it says that it is there.
WITHOUT_LOOP = """
import sys, types
loop = types.ModuleType("holdfast.agent.loop")
loop.serve = lambda *arguments: sys.stdin.buffer.read() == b""
sys.modules[loop.__name__] = loop
from holdfast.services import main
main()
"""


def test_an_agent_is_known_by_its_number_before_its_loop_runs(tmp_path: Path) -> None:
    key = bytes(range(32))
    session = Session(
        name="test", created=0.0, virtual_nodes=1, tree_largest=1, tree_ttl=0.0, launcher="test"
    )
    config = load(arguments={"memory": "16 MiB", "disk": "16 MiB"}).config
    place = str(tmp_path / "session")
    orders = Orders(
        session=session, job_key=key.hex(), config=config, node="one", directory=place, here=True
    )
    sessions.make(place, session, key)
    prober = core_in(tmp_path, key)
    told: list[Any] = []

    def heard() -> bool:
        told.extend(filter(None, [prober.next_event()]))
        return bool(told)

    with subprocess.Popen(
        [sys.executable, "-c", WITHOUT_LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(orders) + b"\n")
            process.stdin.flush()
            ready = msgspec.json.decode(process.stdout.readline(), type=Ready)
            assert ready.member is not None, ready.error
            prober.start()
            prober.probe(
                1,
                ready.member.address,
                via="",
                news=b"",
                deadline=20.0,
                member=ready.member.number,
            )
            wait_for(heard)
        finally:
            process.stdin.close()
            process.wait(20)
            prober.stop()
    assert isinstance(told[0], _core.AnsweredEvent), told


@pytest.mark.parametrize("count", [1, 7, 8, 9, 100, 1000])
def test_a_few_seeds_lead_to_any_number_of_agents(count: int) -> None:
    members = [
        Member(node=f"n{i}", number=i, started=0, address=f"tcp:10.0.0.1:{i}", socket="", pid=1)
        for i in range(count)
    ]
    found = agents.seeds(members)
    assert min(count, 5) <= len(found) <= 8
    assert set(found) <= {member.address for member in members}
    assert found[0] == members[0].address


def test_who_closes_the_connection_is_told_again_who_else_is_there() -> None:
    """The door of an agent is shut in the face of the first two; the third comes in."""
    with (
        holdfast.local_cluster(nodes=1) as cluster,
        socket.create_server(("127.0.0.1", 0)) as door,
        socket.socket() as inside,
    ):
        member = cluster.nodes[0].member
        host, port = member.address.removeprefix("tcp:").split(":")

        def shut_twice() -> None:
            for _ in range(2):
                door.accept()[0].close()
            connection = door.accept()[0]
            inside.connect((host, int(port)))
            back = threading.Thread(target=carry, args=(inside, connection))
            back.start()
            carry(connection, inside)
            back.join()
            connection.close()

        porter = threading.Thread(target=shut_twice, daemon=True)
        porter.start()
        elsewhere = replace(member, address=f"tcp:127.0.0.1:{door.getsockname()[1]}")
        newcomer = Member(
            node="newcomer", number=7, started=0, address="tcp:127.0.0.1:1", socket="", pid=1
        )
        client = _core.AgentClient(bytes.fromhex((cluster.directory / "key").read_text()))
        contacts.join(client, [elsewhere], agents.as_view([newcomer]), 30.0)
        client.close()
        porter.join()
        view = contacts.Contacts(cluster.directory, 5.0).view()
        assert "newcomer" in {entry.member.node for entry in view.entries()}


def carry(source: socket.socket, target: socket.socket) -> None:
    while got := source.recv(1 << 16):
        target.sendall(got)
    target.shutdown(socket.SHUT_WR)


def test_who_never_listens_cannot_be_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp:127.0.0.1:{taken.getsockname()[1]}"
    nobody = Member(node="nobody", number=7, started=0, address=address, socket="", pid=1)
    with pytest.raises(errors.Unavailable):
        contacts.join(_core.AgentClient(bytes(32)), [nobody], agents.as_view([nobody]), 0.2)
