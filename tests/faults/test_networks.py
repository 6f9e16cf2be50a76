"""Networks on one machine: cuts are real, healing heals, nothing is left behind."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.requirements import needs_networks
from support.waits import wait_for

from holdfast import errors
from holdfast.launch import bridges, networks
from holdfast.launch.networks import Networks

TALKER = Path(__file__).with_name("talker.py")
#: How long silence is waited for before it counts as silence.
SILENCE = 0.3


class Talker:
    """A process in one node's network."""

    def __init__(self, made: Networks, node: int) -> None:
        self.address = made.address(node)
        self._process = subprocess.Popen(
            [*made.under(node), sys.executable, str(TALKER), self.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._rest = b""
        assert self.hears(10.0, "ready") == ["ready"]

    def say(self, to: Talker, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{to.address} {text}\n".encode())

    def hears(self, silence: float, last: str = "") -> list[str]:
        """Return the lines up to `last`, or all when none has come for a while."""
        out = self._process.stdout
        assert out is not None
        lines: list[str] = []
        while last not in lines and select.select([out], [], [], silence)[0]:
            *whole, self._rest = (self._rest + out.read(65536)).split(b"\n")
            lines += (line.decode() for line in whole)
        return lines

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def reaches(source: Talker, target: Talker) -> bool:
    """Whether a word gets from one to the other."""
    word = f"{time.monotonic_ns()}"
    # Twice: the first packet may be lost while addresses are still being asked for.
    for _ in range(2):
        source.say(target, word)
        if word in target.hears(SILENCE, word):
            return True
    return False


@pytest.fixture
def talkers(three: Networks) -> Iterator[list[Talker]]:
    made = [Talker(three, node) for node in range(3)]
    yield made
    for talker in made:
        talker.close()


def pairs(talkers: list[Talker]) -> set[tuple[int, int]]:
    """Return who reaches whom."""
    everybody = range(len(talkers))
    return {
        (a, b) for a in everybody for b in everybody if a != b and reaches(talkers[a], talkers[b])
    }


ALL = {(a, b) for a in range(3) for b in range(3) if a != b}


@needs_networks
def test_a_one_way_cut_stops_one_direction_and_healing_heals(
    three: Networks, talkers: list[Talker]
) -> None:
    assert pairs(talkers) == ALL
    three.cut(0, 1)
    assert pairs(talkers) == ALL - {(0, 1)}
    three.cut(2, 1)
    three.lose(1, 0, 0.001)
    assert pairs(talkers) == ALL - {(0, 1), (2, 1)}
    assert three.cuts() == {(0, 1), (2, 1)}
    three.heal()
    assert pairs(talkers) == ALL
    assert three.cuts() == set()
    three.heal()  # nothing to heal


@needs_networks
def test_a_loss_is_lossy(three: Networks, talkers: list[Talker]) -> None:
    assert reaches(talkers[0], talkers[1])
    three.lose(0, 1, 0.5)
    sent = 400
    for number in range(sent):
        talkers[0].say(talkers[1], f"word-{number}")
    heard = talkers[1].hears(SILENCE)
    assert sent / 4 < len(heard) < sent * 3 / 4
    assert reaches(talkers[1], talkers[0])  # the other direction is whole
    three.heal()
    assert reaches(talkers[0], talkers[1])


@needs_networks
def test_a_delayed_node_is_slow_in_both_directions_and_only_it(
    three: Networks, talkers: list[Talker]
) -> None:
    def seconds(source: int, target: int) -> float:
        start = time.monotonic()
        assert reaches(talkers[source], talkers[target])
        return time.monotonic() - start

    assert pairs(talkers) == ALL  # addresses are known by now
    relay = three.delay(1, 0.1)
    try:
        # Never less than the delay, however fast or slow the machine is.
        assert seconds(0, 1) >= 0.1
        assert seconds(1, 0) >= 0.1
        assert min(seconds(0, 2) for _ in range(5)) < 0.1
    finally:
        three.undelay(1, relay)
    assert min(seconds(0, 1) for _ in range(5)) < 0.1
    assert pairs(talkers) == ALL


@needs_networks
def test_a_connection_that_is_cut_goes_on_when_it_is_healed(three: Networks) -> None:
    """A cut loses packets, as a broken cable does; it does not close connections."""
    with (
        Echo(three, 0) as echo,
        socket.create_connection((three.address(0), Echo.PORT), 10) as ours,
    ):
        ours.sendall(b"one")
        assert ours.recv(10) == b"one"
        # This host sits on the bridge: what it sends is lost where the node receives it.
        bridges.nft(three._namespace(0), "add rule inet holdfast input ip saddr 198.18.0.0/15 drop")
        ours.settimeout(SILENCE)
        ours.sendall(b"two")
        with pytest.raises(TimeoutError):
            ours.recv(10)
        three.heal()
        ours.settimeout(10)
        assert ours.recv(10) == b"two"
        assert echo.poll() is None


class Echo(subprocess.Popen[bytes]):
    """A server in a node's network that sends back what it gets."""

    PORT = 7

    def __init__(self, made: Networks, node: int) -> None:
        code = (
            "import socket, sys\n"
            "server = socket.create_server((sys.argv[1], 7))\n"
            "print('ready', flush=True)\n"
            "peer, _ = server.accept()\n"
            "while data := peer.recv(1000): peer.sendall(data)\n"
        )
        command = [*made.under(node), sys.executable, "-c", code, made.address(node)]
        super().__init__(command, stdout=subprocess.PIPE)
        assert self.stdout is not None
        assert self.stdout.readline() == b"ready\n"

    def __exit__(self, *details: object) -> None:
        self.kill()
        super().__exit__(*details)


@needs_networks
def test_a_unix_socket_is_reached_from_any_network(three: Networks, tmp_path: Path) -> None:
    code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        server.listen()
        command = [*three.under(1), sys.executable, "-c", code, str(tmp_path / "socket")]
        subprocess.run(command, check=True, timeout=30)


def in_kernel(name: str) -> list[str]:
    """Everything that the kernel has under this name."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    spaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return [line for line in (links.stdout + spaces.stdout).splitlines() if name in line]


@needs_networks
def test_nothing_is_left_at_the_end() -> None:
    with Networks.make(2) as made:
        relay = made.delay(0, 0.01)
        try:
            assert len(in_kernel(made.name)) >= 5
        finally:
            relay.close()
    assert in_kernel(made.name) == []
    made.remove()  # twice does no harm


@needs_networks
@pytest.mark.parametrize("delayed", [False, True])
def test_what_an_owner_left_that_was_killed_is_removed_by_the_next(delayed: bool) -> None:
    code = (
        "import os, signal, sys\n"
        "from holdfast.launch.networks import Networks\n"
        "made = Networks.make(2)\n"
        f"if {delayed}: relay = made.delay(0, 0.01)\n"
        "print(made.name, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    name = done.stdout.strip()
    assert in_kernel(name)
    with Networks.make(1) as made:
        assert made.name != name
        assert in_kernel(name) == []


@needs_networks
def test_networks_in_which_somebody_lives_are_not_stale() -> None:
    code = (
        "import subprocess, sys\n"
        "from holdfast.launch.networks import Networks\n"
        "made = Networks.make(1)\n"
        "quiet = dict.fromkeys(('stdout', 'stderr'), subprocess.DEVNULL)\n"
        "sleeper = subprocess.Popen([*made.under(0), 'sleep', '60'], **quiet)\n"
        "print(made.name, sleeper.pid, flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    name, pid = done.stdout.split()
    try:
        bridges.remove_stale()
        assert in_kernel(name)
    finally:
        os.kill(int(pid), 9)
    wait_for(lambda: not bridges.inhabited(name))
    bridges.remove_stale()
    assert in_kernel(name) == []


@needs_networks
def test_mistakes_are_said(three: Networks) -> None:
    with pytest.raises(errors.BadInput, match="there is no node 3; there are 3 networks"):
        three.cut(0, 3)
    with pytest.raises(errors.BadInput, match="off from itself"):
        three.cut(1, 1)
    with pytest.raises(errors.BadInput, match="between 0 and 1"):
        three.lose(0, 1, 1.5)
    with pytest.raises(errors.BadInput, match="use up to 60 s"):
        three.delay(0, 0)
    with pytest.raises(errors.BadInput, match="create 1 to 250"):
        Networks.make(1000)


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "why_not", lambda: "network namespaces need root")
    with pytest.raises(errors.Refused, match="need root"):
        Networks.make(2)
