"""What the shim does not believe: names of other files, false replies, sockets of other users."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from preloaded import Shell
from support.waits import WITHIN

from holdfast import _core


@pytest.fixture
def backing(backing: Path) -> Path:
    for number in range(20):
        (backing / str(number)).write_bytes(b"%d." % number * 100)
    return backing


def test_a_name_with_the_same_hash_as_another_is_not_believed(shell: Shell) -> None:
    """Names are found by a hash of the path: the copy found there may be another file's."""
    shell.warm()
    ask = "cd $ROOT && sha256sum * && stat -c '%n %i %s' *"
    plain = shell.plain(ask)
    assert shell.shimmed(ask) == plain  # and the agent has told the names
    with open(shell.cluster.directory / "node-0.attributes", "r+b") as table:
        # As native/base/attribute_table.h has it: sequence, copies, hash, and what is found there.
        table.seek(4096)
        names = [bytearray(table.read(256)) for _ in range(16384)]
        told = [number for number, name in enumerate(names) if any(name)]
        assert len(told) > 1
        for number, other in zip(told, [*told[1:], told[0]], strict=True):
            table.seek(4096 + 256 * number)
            table.write(names[number][:16] + names[other][16:])
    assert shell.shimmed(ask) == plain


def lie(listener: socket.socket, false: int, **lies: int) -> None:
    """Answer the first request by passing a file, as the agent would but for `lies`."""
    with listener.accept()[0] as connection:
        asked = connection.recv(4096)
        said = {"op": asked[5], "flags": 1 | 4, "request": int.from_bytes(asked[16:24], "little")}
        said |= lies
        head = struct.pack(
            "<IBBHHHIQQII", 0x46444C48, 1, said["op"], said["flags"], 0, 0, 0, said["request"], 0,
            0, 0,
        )  # fmt: skip
        head += struct.pack("<II", _core.crc32c(head), 0)
        socket.send_fds(connection, [head], [false])
        connection.recv(1)


@pytest.mark.parametrize("lies", [{}, {"op": 15}, {"flags": 4}, {"request": 0}])
def test_a_false_reply_is_not_believed(shell: Shell, tmp_path: Path, lies: dict[str, int]) -> None:
    read = "cat $ROOT/0"
    plain = shell.shimmed(read)  # and the agent has told what it sees at the root
    assert plain == shell.plain(read)
    (tmp_path / "false").write_bytes(b"false")
    path = Path(shell.cluster.nodes[0].member.socket.removeprefix("unix:"))
    aside = path.with_name("aside")
    path.rename(aside)
    with socket.socket(socket.AF_UNIX) as listener, open(tmp_path / "false", "rb") as false:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(WITHIN)
        liar = threading.Thread(target=lie, args=(listener, false.fileno()), kwargs=lies)
        liar.start()
        ran = shell.shimmed(read)
        liar.join()
    path.unlink()
    aside.rename(path)
    assert (ran.output == b"false") if not lies else (ran == plain)


def test_a_socket_of_another_user_is_not_asked(
    shell: Shell, another_user: Callable[[Path], None]
) -> None:
    path = Path(shell.cluster.nodes[0].member.socket.removeprefix("unix:"))
    aside = path.with_name("aside")
    path.rename(aside)
    another_user(path)
    assert shell.shimmed("cat $ROOT/0") == shell.plain("cat $ROOT/0")
    path.unlink()
    aside.rename(path)
