"""`holdfast run --mount`: a whole environment through the mount, in one step."""

from __future__ import annotations

import _ctypes
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from support.commands import HOLDFAST, run_in

import holdfast
from holdfast.files.mount import control, environment

_SHOW = """
import json, os, sys, msgspec
with open("/proc/self/maps") as maps:
    libraries = sorted({line.split()[-1] for line in maps if "_core" in line})
print(json.dumps({
    "prefix": sys.prefix, "file": msgspec.__file__, "maps": libraries, "argv": sys.argv,
    "path": os.environ["PATH"], "executable": sys.executable,
}))
"""


@pytest.fixture
def environment_root(tmp_path: Path) -> Path:
    """A virtual environment with a package that has a library, a script, and a program."""
    root = tmp_path / "sw/env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    [packages] = root.glob("lib/python*/site-packages")
    shutil.copytree(Path(msgspec.__file__).parent, packages / "msgspec")
    (root / "app.py").write_text(_SHOW)
    script = root / "bin/show"
    script.write_text(f"#!{root}/bin/python -s\n{_SHOW}")
    script.chmod(0o755)
    return root


def run(alone: holdfast.LocalCluster, root: Path, *words: str) -> str:
    activated = {"PATH": f"{root}/bin:/usr/bin:/bin", "VIRTUAL_ENV": str(root)}
    done = run_in(alone.directory, HOLDFAST, "run", "--mount", *words, cwd=root, **activated)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_virtual_environment_works_unchanged(
    alone: holdfast.LocalCluster, environment_root: Path
) -> None:
    root = environment_root
    found = msgspec.json.decode(run(alone, root, "--", "python", "app.py"))  # no root is named
    [mount] = control.of_session(alone.directory).values()
    view = f"{mount.point}{root}"
    assert found["prefix"] == view
    assert found["executable"] == f"{view}/bin/python"
    assert found["argv"] == [f"{view}/app.py"]
    assert found["file"].startswith(view)
    assert found["maps"]
    assert all(path.startswith(view) for path in found["maps"])
    assert found["path"] == f"{view}/bin:/usr/bin:/bin"

    again = msgspec.json.decode(run(alone, root, "--root", str(root), "--", "show", "x"))
    assert (again["prefix"], again["argv"]) == (view, [f"{view}/bin/show", "x"])
    assert list(control.of_session(alone.directory).values()) == [mount], "it mounted twice"

    printed = run(alone, root, "--print-env", "--", "python")
    assert f"export PATH={view}/bin:/usr/bin:/bin\n" in printed
    assert f"export VIRTUAL_ENV={view}\n" in printed


def test_programs_that_start_at_once_share_one_mount(
    alone: holdfast.LocalCluster, environment_root: Path
) -> None:
    root = environment_root
    with ThreadPoolExecutor(6) as pool:
        said = set(pool.map(lambda _: run(alone, root, "--", "python", "app.py"), range(6)))
    assert len(said) == 1
    assert len(control.of_session(alone.directory)) == 1


def test_libraries_are_loaded_by_the_mount(
    alone: holdfast.LocalCluster, environment_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = environment_root
    shutil.copy(_ctypes.__file__, root / "lib/libown.so")
    (root / "modules").mkdir()
    (root / "modules/own.py").write_text("import ctypes; ctypes.CDLL('libown.so')")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{root}/lib")
    monkeypatch.setenv("PYTHONPATH", f"{root}/modules")
    show = "import own; print(own.__file__, *(l for l in open('/proc/self/maps') if 'libown' in l))"
    said = run(alone, root, "--", "python", "-c", show).split()
    [mount] = control.of_session(alone.directory).values()
    assert said[0] == f"{mount.point}{root}/modules/own.py"
    assert {word for word in said if "libown" in word} == {f"{mount.point}{root}/lib/libown.so"}


def test_only_what_lies_below_a_root_is_replaced() -> None:
    through = {"/sw/env": "/mnt/sw/env", "/sw/env/inner": "/other/inner"}
    present = {
        "PATH": "/sw/env/bin:/usr/bin:/sw/environment:/sw/env/inner/bin",
        "LD_LIBRARY_PATH": "/usr/lib",
        "PYTHONPATH": "/sw/env",
        "HOME": "/sw/env/home",
    }
    assert environment.variables(present, through) == {
        "PATH": "/mnt/sw/env/bin:/usr/bin:/sw/environment:/other/inner/bin",
        "PYTHONPATH": "/mnt/sw/env",
    }
