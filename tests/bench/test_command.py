import importlib
import json
import subprocess
import sys

import pytest

import holdfast.cli.bench as command
from holdfast.bench import baselines, programs
from holdfast.bench.figures import Report, at_most, shown
from holdfast.cli.main import main


def holdfast(*arguments):
    call = "import sys; from holdfast.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", call, *arguments], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nonsense"], "there is no benchmark 'nonsense'; choose one of core"),
        (["core", "--write", "x.md"], "use it with `holdfast bench all`"),
        (["all", "--write", "no/such/place/x.md"], "there is no directory no/such/place"),
        (["core", "--plots", "."], "draws the plots of `holdfast bench mount` or `replicas`"),
        (["core", "--small"], "works only with `holdfast bench mount`"),
        (["replicas", "--plots", "no/such/place"], "into an existing directory"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence):
    done = holdfast("bench", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_record_outside_a_checkout_is_refused_before_anything_runs(tmp_path):
    call = "from holdfast.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", call, "bench", "core", "--record"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "run it at the top of a source checkout" in done.stderr


@pytest.fixture
def canned(monkeypatch):
    """Replaces the measuring, and nothing else, by a report that is there at once."""
    report = Report("core", [at_most("get", 1.0, 2.0, "x", "raw")], {"raw": 5.0})
    monkeypatch.setattr(command, "run_one", lambda name: report)
    monkeypatch.setattr(baselines, "recorded", lambda machine: {"raw": 10.0})


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["holdfast", "bench", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_json_is_all_there_is_on_standard_output(canned, monkeypatch, capsys):
    import json

    assert run(monkeypatch, "core", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["bench"] == "core"
    assert answer["figures"][0]["met"] is True
    assert "raw reached 0.50" in answer["invalid"][0]


def test_all_writes_the_page(canned, monkeypatch, capsys, tmp_path):
    assert run(monkeypatch, "all", "--write", str(tmp_path / "page.md")) == 0
    text = (tmp_path / "page.md").read_text()
    assert "## core" in text
    assert "This run is invalid" in text
    assert "holdfast bench core" in capsys.readouterr().out


def test_replicas_draws_its_plots(monkeypatch, capsys, tmp_path):
    calls = {"submit": 1.8, "scatter": 0.1, "load 1 %": 0.06, "load all": 0.4}
    figures = []
    for order in ("permuted", "in order"):
        for call, value in calls.items():
            figures += [
                shown(f"{call}, {order}, ranges of {size}", value, "ms")
                for size in ("1 KiB", "256 KiB", "16 MiB")
            ]
            figures += [shown(f"{call}, {order}, {ranks} ranks", value, "ms") for ranks in (4, 8)]
    for share in ("1 %", "all"):
        figures += [shown(f"having {share}, {how}", 3.0, "ms") for how in ("Replicas", "MPI-IO")]
    monkeypatch.setattr(command, "run_one", lambda name: Report("replicas", figures))
    assert run(monkeypatch, "replicas", "--plots", str(tmp_path)) == 0
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert drawn.keys() == {"replicas-ranges.png", "replicas-ranks.png", "replicas-files.png"}
    assert all(content.startswith(b"\x89PNG") for content in drawn.values())


def test_the_programs_are_installed_and_answer(tmp_path):
    core, _ = programs.two_cores()
    for name in ("blocking_server", "epoll_server"):
        for address in (f"unix:{tmp_path}/{name}", "tcp:127.0.0.1:0"):
            with programs.server(core, name, address, 100_000) as bound:
                pace = programs.client(core, "raw_client", bound, 100_000, 2, 1)
                assert pace.per_second > 0
                assert pace.seconds > 0


def test_get_loop_gets_and_notices_a_wrong_size(tmp_path):
    import holdfast
    from holdfast.errors import HoldfastError
    from holdfast.session.session import read_key

    core, _ = programs.two_cores()
    with holdfast.local_cluster(nodes=1) as cluster:
        cluster.connect().objects.put("k", b"x" * 1000, copies=1)
        key, member = read_key(cluster.directory), cluster.nodes[0].member
        for address in (member.socket, member.address):
            assert (
                programs.client(core, "get_loop", address, "k", 1000, 2, 1, stdin=key).seconds > 0
            )
        with pytest.raises(HoldfastError, match="another size"):
            programs.client(core, "get_loop", member.socket, "k", 999, 1, 1, stdin=key)


def test_one_bench_after_another_whatever_they_import(monkeypatch, capsys):
    # A module of the package under the name of one of its functions would take its place.
    module = type(sys)("tiny_bench")
    module.run = lambda: Report("tiny", [at_most("get", 1.0, 2.0, "x", "raw")])
    monkeypatch.setitem(sys.modules, "tiny_bench", module)
    monkeypatch.setattr(command, "BENCHES", {"one": "tiny_bench", "two": "tiny_bench"})
    importlib.import_module("holdfast.bench.measure")
    assert run(monkeypatch, "all", "--json") == 0
    assert [report["bench"] for report in json.loads(capsys.readouterr().out)] == ["tiny", "tiny"]
