"""An ordinary user has a session, too, and is told where none can be."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

USER = "nobody"
MAIN = "import sys; sys.argv[0] = 'holdfast'; from holdfast.cli.main import main; main()"
PUT = "import holdfast; holdfast.connect().objects.put('key', b'bytes', copies=2)"
GET = "import holdfast; print(holdfast.connect().objects.get('key').decode())"
IN_READ_ONLY = "import holdfast; holdfast.local_cluster(nodes=1, run_dir='read-only')"

pytestmark = pytest.mark.skipif(
    os.getuid() != 0, reason="all tests run as an ordinary user already"
)


class Ordinary:
    """Runs programs as somebody who may do nothing special, at home."""

    def __init__(self, python: str, home: Path) -> None:
        self.python, self.home = python, home
        self._environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "TMPDIR": str(home),
            "PYTHONPATH": sysconfig.get_path("purelib"),
            "HOLDFAST_MEMORY": "64 MiB",
            "HOLDFAST_DISK": "64 MiB",
            "HOLDFAST_FILE_SETTLED": "0 s",
        }

    def run(self, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, "-c", code, *arguments],
            cwd=self.home,
            env=self._environment,
            user=USER,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=60,
        )

    def holdfast(self, *arguments: str) -> str:
        done = self.run(MAIN, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def ordinary() -> Iterator[Ordinary]:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    home = Path(tempfile.mkdtemp(prefix="hfu-", dir="/tmp"))  # others may not enter the tests' own
    shutil.chown(home, USER)
    try:
        for python in (sys.executable, f"/usr/bin/{version}"):
            somebody = Ordinary(python, home)
            try:
                if somebody.run("import holdfast").returncode == 0:
                    break
            except OSError:
                continue
        else:
            pytest.skip(f"{USER} may not run any Python that Holdfast is installed for")
        yield somebody
        somebody.run(MAIN, "down")
    finally:
        shutil.rmtree(home)


def test_a_session_of_an_ordinary_user(ordinary: Ordinary) -> None:
    data = ordinary.home / "data"
    data.mkdir()
    (data / "file").write_text("of the storage\n")
    ordinary.holdfast("up", "--nodes", "2")
    ordinary.run(PUT).check_returncode()
    assert ordinary.run(GET).stdout == "bytes\n"
    read = ordinary.holdfast("run", "--root", str(data), "--", "cat", str(data / "file"))
    assert read == "of the storage\n"
    nodes = json.loads(ordinary.holdfast("status", "--json"))["nodes"]
    assert [node["state"] for node in nodes] == ["alive"] * 2
    assert sum(node["files"]["files"] for node in nodes) == 1  # `run` went through an agent
    ordinary.holdfast("down")
    assert os.listdir(ordinary.home) == ["data"]


def test_where_nothing_can_be_written_no_session_starts(ordinary: Ordinary) -> None:
    place = ordinary.home / "read-only"
    place.mkdir(mode=0o500)
    shutil.chown(place, USER)
    sentence = f"cannot keep sessions in {place}: Permission denied; set another run_dir\n"
    done = ordinary.run(MAIN, "up", "--nodes", "1", "--set", f"run_dir={place}")
    assert (done.returncode, done.stderr) == (2, f"holdfast: {sentence}")
    done = ordinary.run(IN_READ_ONLY.replace("'read-only'", f"{str(place)!r}"))
    assert done.stderr.endswith(f"BadInput: {sentence}")
