"""A real ssh server on this machine, private to a test: its own key, port and hosts.

Hosts differ by address, all of them loopback, and each has a directory of its own for temporary
files: what lies on one cannot be seen on the others.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from support.waits import wait_for

PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
NEEDED = ("ssh", "ssh-keygen", "sshd")
#: Where the server wants an empty directory when it runs as root.
PRIVILEGES = Path("/run/sshd")

SERVER = """
ListenAddress 127.0.0.1:{port}
{listen}
HostKey {directory}/host-key
AuthorizedKeysFile {directory}/user-key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
"""
HOST_ON_SERVER = """
Match LocalAddress {address}
    SetEnv TMPDIR={directory}/{host}
"""
CLIENT = """
Host *
    Port {port}
    IdentityFile {directory}/user-key
    IdentitiesOnly yes
    UserKnownHostsFile {directory}/known
    StrictHostKeyChecking no
    LogLevel ERROR
"""
HOST_OF_CLIENT = """
Host {host}
    HostName {address}
"""


def missing() -> list[str]:
    return [name for name in NEEDED if shutil.which(name, path=PATH) is None]


@contextlib.contextmanager
def server(directory: Path, hosts: list[str]) -> Iterator[str]:
    """Run a server for these hosts; gives the command that reaches them."""
    addresses = {host: f"127.0.0.{number}" for number, host in enumerate(hosts, 2)}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    names = {"directory": directory, "port": port}
    listen = "\n".join(f"ListenAddress {address}:{port}" for address in addresses.values())
    on_server, of_client = SERVER.format(listen=listen, **names), ""
    for host, address in addresses.items():
        (directory / host).mkdir()
        on_server += HOST_ON_SERVER.format(host=host, address=address, **names)
        of_client += HOST_OF_CLIENT.format(host=host, address=address)
    (directory / "server").write_text(on_server)
    (directory / "client").write_text(of_client + CLIENT.format(**names))
    for key in ("host-key", "user-key"):
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / key))
    with _privileges(), (directory / "sshd.log").open("wb") as log:
        path = shutil.which("sshd", path=PATH)
        assert path
        daemon = subprocess.Popen(
            [path, "-D", "-e", "-f", str(directory / "server")],
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
        try:
            _wait_for(port, directory / "sshd.log")
            yield f"ssh -F {directory}/client -o BatchMode=yes"
        finally:
            daemon.terminate()
            daemon.wait(10)


@contextlib.contextmanager
def _privileges() -> Iterator[None]:
    if os.getuid() != 0 or PRIVILEGES.exists():
        yield
        return
    PRIVILEGES.mkdir(mode=0o755)
    try:
        yield
    finally:
        PRIVILEGES.rmdir()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def _wait_for(port: int, log: Path) -> None:
    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_for(listens, log.read_text)
