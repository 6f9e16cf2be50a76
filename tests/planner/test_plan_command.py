"""`holdfast plan` as people type it: advice, tables, JSON, plots, and one sentence for mistakes."""

import json
import os
import shlex
import subprocess
import sys
from datetime import datetime, timedelta

import numpy as np
import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.errors import BadInput

TSUBAME = shlex.split(
    "--nodes 1408 --checkpoint 29GB --local 400MB/s --shared 6.4GB/s --mtbf 13h "
    "--shared-failures 6%"
)
COSTS = shlex.split(
    "--local-cost 72.5 --local-recovery 72.5 --shared-cost 6380 --shared-recovery 6380 "
    "--local-rate 2.0e-5 --shared-rate 1.33e-6 --overhead 0.00184"
)
QUICK = {
    "checkpoint": TSUBAME,
    "ring": ["--nodes", "64", "--files", "4096", "--virtual-nodes", "10,100", "--trials", "20"],
    "copies": ["--ranks", "2^10", "--failures", "10"],
    "training": ["--nodes", "64,128", "--files", "16384", "--batch", "1024", "--runs", "3"],
    "import": ["--nodes", "32,512"],
}


def plan(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def numbers(*arguments: str) -> dict:
    return json.loads(plan(*arguments, "--json"))


def refused(*arguments: str) -> str:
    """The sentence that a mistake gets; the command turns it into exit code 2."""
    with pytest.raises(BadInput) as caught:
        CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


@pytest.fixture
def sacct(tmp_path):
    """A file of jobs as sacct prints them, steps included."""
    rng = np.random.default_rng(1)
    lines = ["JobID|State|NNodes|Elapsed|End"]
    states = (
        ["COMPLETED"] * 60 + ["FAILED"] * 13 + ["TIMEOUT"] * 11 + ["NODE_FAIL", "CANCELLED by 7"]
    )
    for job in range(600):
        state = states[rng.integers(len(states))]
        minutes = int(rng.integers(1, 3000))
        elapsed = f"{minutes // 1440}-{minutes // 60 % 24:02}:{minutes % 60:02}:00"
        end = (datetime(2024, 1, 1) + timedelta(hours=7 * job)).isoformat()
        nodes = 2 ** rng.integers(0, 12)
        lines.append(f"{job}|{state}|{nodes}|{elapsed}|{end}")
        lines.append(f"{job}.batch|{state.split()[0]}|1|{elapsed}|{end}")
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_commands_of_the_issue_give_the_models_numbers() -> None:
    best = numbers("checkpoint", *TSUBAME)
    assert best["async"]["efficiency"] == pytest.approx(0.924, abs=1e-3)
    assert best["sync"]["efficiency"] == pytest.approx(0.812, abs=1e-3)
    assert best["inputs"]["levels"][0]["cost_s"] == pytest.approx(72.5)
    point = numbers("checkpoint", *COSTS, "--interval", "1500", "--segments", "6")
    assert point["sync"]["expected_s"] == pytest.approx(17105.40798, abs=5e-6)
    assert point["async"]["expected_s"] == pytest.approx(9875.25675, abs=5e-6)
    assert point["async"].keys() >= {"interval_s", "segments", "expected_s", "efficiency"}
    assert (point["async"]["interval_s"], point["async"]["segments"]) == (1500.0, 6)
    calm = ["--local-cost", "10", "--shared-cost", "100", "--local-rate", "0", "--shared-rate", "0"]
    never = numbers("checkpoint", *calm, "--interval", "1000", "--segments", "2")
    assert never["sync"]["expected_s"] == pytest.approx(2110.0)
    assert never["best"] == {"sync": None, "async": None}


@pytest.mark.parametrize("name", QUICK)
def test_every_plan_shows_itself_in_every_way(name, tmp_path) -> None:
    picture = tmp_path / "plan.png"
    said = plan(name, *QUICK[name], "--explain", "--plot", str(picture))
    advice = said.splitlines()[0]
    assert advice.endswith(".")
    assert "━" in said  # a table
    assert "Source" in said  # the explanation
    assert picture.read_bytes()[:4] == b"\x89PNG"
    vector = tmp_path / "plan.svg"
    document = numbers(name, *QUICK[name], "--plot", str(vector))
    assert "<svg" in vector.read_text()
    assert document["plan"] == name
    assert document["advice"].endswith(".")
    assert "explanation" not in document
    assert "Source" in numbers(name, *QUICK[name], "--explain")["explanation"]


def test_plan_failures_shows_itself_in_every_way(sacct, tmp_path) -> None:
    picture = tmp_path / "failures.png"
    said = plan("failures", "--sacct", str(sacct), "--nodes", "128", "--plot", str(picture))
    assert "plan with --mtbf" in said.splitlines()[0]
    assert "By week" in said
    assert picture.read_bytes()[:4] == b"\x89PNG"
    document = numbers("failures", "--sacct", str(sacct), "--nodes", "128")
    assert document["jobs"] == document["failures"] + sum(
        line.count("|COMPLETED|") for line in sacct.read_text().splitlines() if ".batch" not in line
    )
    assert document["job_mtbf_low_s"] < document["job_mtbf_s"] < document["job_mtbf_high_s"]
    assert sum(each["jobs"] for each in document["by_elapsed"]) == document["jobs"]
    assert len(document["weekly_mean_elapsed_s"]) > 20
    classes = numbers("failures", "--sacct", str(sacct), "--bins", "1,100,5000")["by_nodes"]
    assert [each["low"] for each in classes] == [1, 100]


def test_extras_of_the_checkpoint_plan() -> None:
    document = numbers(
        "checkpoint", *TSUBAME, "--overhead-slope", "0.008768", "--staging-nodes", "32",
        "--efficiency", "90%", "--staging-curve", "8:2.2GB/s,16:4GB/s,32:6.4GB/s,64:8GB/s",
        "--thread-curve", "1:0.2GB/s,16:1.6GB/s,32:1.6GB/s", "--simulate", "200",
    )  # fmt: skip
    assert document["inputs"]["overhead"] == pytest.approx(0.0017536)
    assert document["needed_bandwidth"]["async_bytes_per_s"] == pytest.approx(3.08e9, rel=0.02)
    assert document["staging"]["best_nodes"] == 32
    assert document["threads"]["enough"] == 16
    seen = document["simulated"]["async_expected_s"]
    assert abs(seen["mean"] - document["async"]["expected_s"]) < 4 * seen["standard_error"]
    assert document["shared_only"]["young"]["efficiency"] < document["sync"]["efficiency"]


def test_more_levels_and_restart_time() -> None:
    levels = ["--level", "cost=1s,mtbf=3h", "--level", "cost=20s,rate=1/day"]
    levels += ["--level", "cost=5min,recovery=6min,mtbf=10d"]
    document = numbers("checkpoint", *levels, "--overhead", "0.05")
    assert len(document["async"]["counts"]) == 2
    assert document["inputs"]["levels"][2]["recovery_s"] == 360.0
    slower = numbers("checkpoint", *levels, "--overhead", "0.05", "--restart", "10min")
    assert slower["async"]["efficiency"] < document["async"]["efficiency"]
    counts = ",".join(str(count) for count in document["async"]["counts"])
    interval = f"{document['async']['interval_s']!r}s"
    point = numbers(
        "checkpoint", *levels, "--overhead", "0.05", "--interval", interval, "--counts", counts
    )
    assert point["async"]["expected_s"] == pytest.approx(document["async"]["expected_s"])


def test_a_log_instead_of_numbers(tmp_path) -> None:
    log = tmp_path / "events.jsonl"
    lines = [{"event": "start", "time": 0}]
    lines += [{"event": "failure", "time": 50_000.0 * n, "level": 1} for n in range(1, 16)]
    lines += [{"event": "failure", "time": 444_000.0, "level": 2}]
    lines += [{"event": "checkpoint", "time": 100.0 * n, "level": 1, "seconds": 72 + n % 2}
              for n in range(1, 9)]  # fmt: skip
    lines += [{"event": "drain", "time": 9000.0, "seconds": 6380}, {"event": "end", "time": 8e5}]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    document = numbers("checkpoint", "--from", str(log))
    assert document["inputs"]["levels"][0]["rate_per_s"] == pytest.approx(15 / 8e5)
    assert document["fit"]["rates"][1]["count"] == 1
    assert document["fit"]["async_at"]["high_rates"]["efficiency"] < document["async"]["efficiency"]
    assert "95 %" in plan("checkpoint", "--from", str(log))
    log.write_text('{"event": "start", "time": 0}\n{"event": "failed", "time": 3}\n')
    assert "line 2 of" in refused("checkpoint", "--from", str(log))
    assert "cannot read" in refused("checkpoint", "--from", str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("checkpoint", "the machine is not described"),
        ("checkpoint --nodes 10", "--shared is missing"),
        ("checkpoint --nodes 10 --local-cost 5", "use options of one kind only"),
        ("checkpoint --nodes 10 --checkpoint 29XB --local 1GB/s --shared 1GB/s --mtbf 1h",
         "'29XB' is not a size"),
        ("checkpoint --nodes 0 --checkpoint 1GB --local 1GB/s --shared 1GB/s --mtbf 1h",
         "number of nodes is 0"),
        ("checkpoint --nodes 9 --checkpoint 1GB --local 1GB/s --shared 1GB/s --mtbf 1h "
         "--node-mtbf 1y", "give only one"),
        ("checkpoint --nodes 9 --checkpoint 1GB --local 1GB/s --shared 1GB/s --mtbf 0",
         "nothing would ever finish"),
        ("checkpoint --nodes 9 --checkpoint 1GB --local 1GB/s --shared 1GB/s --mtbf 1h "
         "--shared-failures 120%", "more than 100 %"),
        ("checkpoint --nodes 9 --checkpoint 1GB --local 1GB/s --shared 1GB/s --mtbf 1h "
         "--shared-failures 0", "never writes there"),
        ("checkpoint --nodes 9 --checkpoint 1TB --local 1MB/s --shared 1MB/s --mtbf 1min",
         "no schedule makes progress"),
        ("checkpoint --level cost=1s", "needs a cost and either a rate or an mtbf"),
        ("checkpoint --level cost=1s,mtbf=1h", "at least two levels"),
        ("checkpoint --level price=1s,mtbf=1h", "'price=1s' is not a part of a level"),
        ("checkpoint --local-cost 5 --shared-cost 9 --local-rate 1e-5 --shared-rate 1e-6 "
         "--segments 3", "add its --interval"),
        ("checkpoint --local-cost 5 --shared-cost 9 --local-rate 1e-5 --shared-rate 1e-6 "
         "--interval 5min", "needs either --segments or --counts"),
        ("checkpoint --local-cost 5 --shared-cost 9 --local-rate 1e-5 --shared-rate 1e-6 "
         "--interval 5min --counts 1,2", "2 numbers; 2 levels need 1"),
        ("checkpoint --local-cost 5 --shared-cost 9 --local-rate 1e-5 --shared-rate 1e-6 "
         "--efficiency 80%", "needs sizes and bandwidths: --nodes"),
        ("checkpoint --local-cost 5 --shared-cost 9 --local-rate 1e-5 --shared-rate 1e-6 "
         "--overhead-slope 0.1", "needs --nodes"),
        ("checkpoint --local-cost 5 --shared-cost 9 --local-rate fast --shared-rate 1e-6",
         "'fast' is not a rate of failures"),
        ("checkpoint --local-cost 5 --shared-cost 9 --local-rate 1e-5 --shared-rate 1e-6 "
         "--interval 5min --segments 0", "it must be at least 1"),
        ("checkpoint --local-cost 5 --shared-cost 9 --local-rate 1e-5 --shared-rate 1e-6 "
         "--overhead some", "'some' is not a number"),
        ("checkpoint --nodes 9 --checkpoint 1GB --local 1GB/s --shared 1GB/s --mtbf 2",
         "no schedule makes progress"),
        ("checkpoint --nodes 9 --checkpoint 1GB --local 1GB/s --shared 1GB/s --mtbf 1d "
         "--efficiency 80", "write it like 80%"),
        ("ring --nodes 1", "at least 2"),
        ("ring --virtual-nodes 10,,100", "not a list of counts"),
        ("ring --labels glued", "apart or joined"),
        ("ring --trials 1", "at least 2"),
        ("copies --ranks 3 --copies 4", "a rank for each"),
        ("copies --ranks 1024 --failures 2000", "give 1 to 1024"),
        ("copies --ranks 2.5", "not a whole number"),
        ("training --batch 8", "at least one file per node"),
        ("training --failure-times soon", "not a list of epochs"),
        ("training --failure-times 9", "outside the 5 epochs"),
        ("training --failures -1", "cannot be negative"),
        ("import --degree 0", "degree is 0"),
        ("import --measured 512", "not a measurement"),
        ("import --measured 512:1s", "measure with more nodes"),
        ("failures --sacct /nowhere/at/all", "cannot read"),
        ("copies --ranks 64 --plot out.pdf", "neither .png nor .svg"),
        ("copies --ranks 64 --plot /nowhere/out.png", "cannot write the plot"),
    ],
)  # fmt: skip
def test_a_mistake_gets_one_sentence(arguments, sentence) -> None:
    assert sentence in refused(*arguments.split())


def test_wrong_files_of_jobs_get_one_sentence(tmp_path) -> None:
    path = tmp_path / "jobs"
    for text, sentence in (
        ("", "not the output of sacct"),
        ("JobID|NNodes|Elapsed\n", "no column state"),
        ("State|NNodes|Elapsed\nFAILED|many|5\n", "line 2 of"),
        ("State|NNodes|Elapsed\nFAILED|5\n", "2 columns, but the first line has 3"),
        ("State|NNodes|Elapsed\nPENDING|5|0\n", "no job that ended by itself"),
    ):
        path.write_text(text)
        assert sentence in refused("failures", "--sacct", str(path))
    path.write_text("State|NNodes|Elapsed\nFAILED|2|10\n")
    assert "--bins" in refused("failures", "--sacct", str(path), "--bins", "5,3")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "from holdfast.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "plan", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_exit_code_2_and_no_traceback() -> None:
    done = run("checkpoint", "--nodes", "ten")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    done = run("copies", "--ranks", "ten")
    assert done.returncode == 2
    assert done.stderr == "holdfast: 'ten' is not a count; write it like 1024 or 2^10\n"


def test_without_numpy_it_says_what_to_install(tmp_path) -> None:
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('gone', name='numpy')\n")
    done = run(
        "ring", PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    )
    assert done.returncode == 1
    assert done.stderr == (
        "holdfast: `holdfast plan` needs numpy, which is not installed; "
        "try: pip install 'holdfast[plan]'\n"
    )


def test_help_needs_no_numpy() -> None:
    """`holdfast --help` and all other commands must not load the numeric libraries."""
    code = "import sys, holdfast.cli.main; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
