import msgspec
import pytest

from holdfast.bench import baselines
from holdfast.bench.figures import Report
from holdfast.errors import BadInput

REPORT = Report("core", [], {"ping-pong": 100.0, "transfer": 50.0})


def test_a_run_on_a_busy_machine_calls_itself_invalid():
    judged = baselines.judge(REPORT, {"ping-pong": 100.0, "transfer": 100.0})
    assert len(judged.invalid) == 1
    assert judged.invalid[0].startswith("transfer reached 0.50 of the rate recorded")


def test_a_run_at_the_limit_is_valid():
    assert baselines.judge(REPORT, {"ping-pong": 160.0, "transfer": 83.0}).invalid == []


def test_an_unknown_machine_is_noted():
    judged = baselines.judge(REPORT, None)
    assert judged.invalid == []
    assert "No baselines are recorded for this machine" in judged.notes[-1]


def test_a_benchmark_without_baselines_is_left_alone():
    report = Report("planner", [])
    assert baselines.judge(report, None) == report


def test_recording_keeps_other_machines_and_other_baselines(tmp_path, monkeypatch):
    file = tmp_path / "src/holdfast/bench/baselines.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"other": {"x": 1.0}, "this": {"files": 7.0, "transfer": 1.0}}')
    monkeypatch.chdir(tmp_path)
    baselines.record("this", [REPORT, Report("core", [], {"ping-pong": 90.0})])
    assert msgspec.json.decode(file.read_bytes()) == {
        "other": {"x": 1.0},
        "this": {"files": 7.0, "transfer": 50.0, "ping-pong": 100.0},
    }


def test_a_busy_machine_is_recorded_at_its_best(tmp_path, monkeypatch):
    file = tmp_path / "src/holdfast/bench/baselines.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"this": {"transfer": 60.0}}')
    monkeypatch.chdir(tmp_path)
    baselines.record("this", [REPORT])
    assert msgspec.json.decode(file.read_bytes())["this"] == {"transfer": 60.0, "ping-pong": 100.0}


def test_recording_needs_a_checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="source checkout"):
        baselines.check_checkout()


def test_the_packaged_file_can_be_read():
    assert baselines.recorded("no such machine") is None


def test_a_machine_is_known_by_processor_cores_and_kernel():
    assert baselines.fingerprint() == baselines.fingerprint()
    assert " cores, Linux " in baselines.fingerprint()
    assert baselines.describe_machine().startswith(baselines.fingerprint())
