"""Settings: which source wins, and what a mistake says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast import config
from holdfast.errors import BadInput


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "holdfast").mkdir()
    return tmp_path


def test_each_source_beats_the_next(home: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(home)}
    assert config.load(environment=env).config.deadline == 2.0
    (home / "holdfast" / "config.toml").write_text('deadline = "3 s"\n')
    assert config.load(environment=env).config.deadline == 3.0
    (home / "holdfast.toml").write_text('deadline = "4 s"\nmemory = "1 GiB"\n')
    assert config.load(environment=env).config.deadline == 4.0
    env["HOLDFAST_DEADLINE"] = "5 s"
    assert config.load(environment=env).config.deadline == 5.0
    assert config.load(flags={"deadline": "6 s"}, environment=env).config.deadline == 6.0
    resolved = config.load({"deadline": "7 s"}, {"deadline": "6 s"}, env)
    assert resolved.config.deadline == 7.0
    assert resolved.origins["deadline"] == "argument deadline"
    assert resolved.origins["memory"] == "holdfast.toml"
    assert resolved.origins["disk"] == "default"
    assert resolved.config.memory == 1 << 30


def test_none_means_not_given() -> None:
    assert config.load(flags={"deadline": None}, environment={}).origins["deadline"] == "default"


def test_unknown_names_are_refused_wherever_they_stand(home: Path) -> None:
    with pytest.raises(BadInput, match=r"HOLDFAST_DEADLIN .*did you mean 'deadline'"):
        config.load(environment={"HOLDFAST_DEADLIN": "3"})
    with pytest.raises(BadInput, match="argument colour sets 'colour', which is not a setting"):
        config.load({"colour": "red"}, environment={})
    (home / "holdfast.toml").write_text("memmory = 3\n")
    with pytest.raises(BadInput, match=r"holdfast.toml sets 'memmory'"):
        config.load(environment={})


def test_the_former_name_of_a_setting_is_refused_with_the_new_one() -> None:
    with pytest.raises(
        BadInput, match="argument patience sets 'patience', which is now 'put_retry_for'"
    ):
        config.load({"patience": "3 s"})
    with pytest.raises(BadInput, match="HOLDFAST_ROLE sets 'role', which is now 'staging' and 's"):
        config.load(environment={"HOLDFAST_ROLE": "spare"})
    for name, now in config.RENAMED.items():
        assert name not in config.SETTINGS
        assert config.SETTINGS.keys() >= set(now)


def test_a_bad_value_names_its_source(home: Path) -> None:
    with pytest.raises(BadInput, match=r"memory \(from HOLDFAST_MEMORY\): 'lots' is not a size"):
        config.load(environment={"HOLDFAST_MEMORY": "lots"})
    (home / "holdfast.toml").write_text("memory = [\n")
    with pytest.raises(BadInput, match=r"cannot read .* as TOML"):
        config.load(environment={})


@pytest.mark.parametrize("content", [b"memory = [", b"\xff\xfe", b"session"])
def test_a_user_s_file_that_is_no_toml_is_a_sentence(home: Path, content: bytes) -> None:
    (home / "holdfast" / "config.toml").write_bytes(content)
    with pytest.raises(BadInput, match=r"cannot read .*config\.toml as TOML"):
        config.load(environment={"XDG_CONFIG_HOME": str(home)})


def test_a_user_s_file_that_cannot_be_looked_at_is_a_sentence(home: Path) -> None:
    (home / "holdfast" / "config.toml").write_text('deadline = "3 s"\n')
    (home / "holdfast").chmod(0)
    own = os.geteuid()
    os.seteuid(own or 65534)  # root may look at everything
    try:
        with pytest.raises(
            BadInput, match=r"cannot read the settings in .*config\.toml: Permission denied"
        ):
            config.load(environment={"XDG_CONFIG_HOME": str(home)})
    finally:
        os.seteuid(own)


def test_several_roots_have_colons_between_them_or_are_a_list(home: Path) -> None:
    (home / "holdfast.toml").write_text('roots = ["/a", "b"]\n')
    assert config.load(environment={}).config.roots == ("/a", str(home / "b"))
    assert config.load({"roots": "/a:b"}, environment={}).config.roots == ("/a", str(home / "b"))
    with pytest.raises(BadInput, match=r"roots .*is not a list of directories"):
        config.load({"roots": [3]}, environment={})


@pytest.mark.parametrize(
    ("name", "value"),
    [("session", "../etc"), ("session", ""), ("port", "x"), ("port", 70000), ("deadline", "0 s")],
)
def test_impossible_values_are_refused(name: str, value: object) -> None:
    with pytest.raises(BadInput, match=name):
        config.load({name: value}, environment={})


def test_the_named_job_file_must_exist(home: Path) -> None:
    with pytest.raises(BadInput, match="not a file"):
        config.load(environment={"HOLDFAST_CONFIG": str(home / "missing.toml")})
