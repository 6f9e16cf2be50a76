"""The story: agents remember what happened and what they decided, and tell it in order."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import pytest
from support.waits import wait_for
from typer.testing import CliRunner

import holdfast
from holdfast import _core
from holdfast.agent.story import MOST, Story
from holdfast.cli.main import app
from holdfast.client import stories
from holdfast.client.events import Event, Kind, line, sentence
from holdfast.errors import Full, KeyExists, Unavailable

WITHIN = 30.0
#: A wait that only somebody's death can cut short.
DEADLINE = "60 s"


# ---- pure


def test_the_last_events_are_kept_in_order_and_found_by_node_and_by_key() -> None:
    now = [1000.0, 50.0]
    story = Story("node-0", lambda: (now[0], now[1]))
    for number in range(MOST + 10):
        story.record("refused", about=f"key-{number}", cause="Full: no room")
    assert len(story.about()) == MOST
    assert story.about()[0].about == "key-10"
    assert [event.about for event in story.about("key-77")] == ["key-77"]
    assert story.about("key-5") == []
    story.record("died", member="node-3")
    assert [event.kind for event in story.about("node-3")] == ["died"]
    assert len(story.about("node-0")) == MOST


def test_an_event_has_the_time_at_which_it_was_and_not_at_which_it_was_heard_of() -> None:
    story = Story("node-0", lambda: (1000.0, 50.0))
    event = story.record("waited", at=48.0)
    assert (event.time, event.boot) == (998.0, 48.0)
    later = Story("node-0", lambda: (1003.0, 53.0)).record("restored", since=event)
    assert later.seconds == 5.0


def test_stories_of_several_nodes_are_merged_by_time_and_each_keeps_its_order() -> None:
    def event(node: str, when: float, boot: float) -> Event:
        return Event(time=when, boot=boot, node=node, kind="view")

    # The clock of the second node was set back.
    a = [event("a", 1.0, 1), event("a", 3.0, 3)]
    b = [event("b", 2.0, 7), event("b", 1.5, 8)]
    told = stories.merge([a, b])
    assert [one.boot for one in told if one.node == "b"] == [7, 8]
    assert [one.boot for one in told][:2] == [1, 7]


def test_every_kind_of_event_can_be_written_as_a_line() -> None:
    for kind in get_args(Kind):
        event = Event(
            time=0.0,
            boot=0.0,
            node="node-0",
            kind=kind,
            member="node-1",
            about="key",
            what="put",
            count=2,
        )
        assert line(event).endswith(sentence(event))
        assert "{" not in line(event)


# ---- a cluster


@pytest.fixture
def agents() -> Iterator[holdfast.LocalCluster]:
    with holdfast.local_cluster(nodes=3, memory="16 MiB", disk="16 MiB") as started:
        yield started


def invoke(cluster: holdfast.LocalCluster, *arguments: str) -> str:
    settings = f"run_dir={cluster.directory.parent}"
    session = cluster.directory.name
    result = CliRunner().invoke(
        app, [*arguments, "--session", session, "--set", settings], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.output


def test_a_death_its_view_and_what_was_refused_are_told(agents: holdfast.LocalCluster) -> None:
    with agents.connect() as job:
        job.objects.put("taken", b"first" * 100, copies=2)
        with pytest.raises(KeyExists) as taken:
            job.objects.put("taken", b"other" * 100, copies=2)
        assert any("refused put 'taken'" in told for told in taken.value.story)
        with pytest.raises(Full) as full:
            job.objects.put("large", bytes(1 << 25), copies=1)
        assert any("refused hand 'large': Full" in told for told in full.value.story)
        [told] = map(json.loads, invoke(agents, "events", "taken", "--json").splitlines())
        assert (told["kind"], told["what"]) == ("refused", "put")
        assert told["cause"].startswith("KeyExists: ")
        for number in range(12):
            job.objects.put(f"single-{number}", b"x" * 100, copies=1)
        agents.kill(2)
        wait_for(lambda: {"node-0": 2, "node-1": 2}.items() <= _last_views(agents).items())
        wait_for(lambda: _lost_one(job))

    kinds = [event.kind for event in agents.story() if "node-2" in event.names]
    assert kinds.index("suspected") < kinds.index("died")
    assert "view of 2 nodes: node-0, node-1" in agents.nodes[0].log.read_text()

    shown = invoke(agents, "events", "node-2")
    assert "node-2 died: " in shown
    assert "taken" not in shown
    assert invoke(agents, "events", "nobody") == "No agent remembers anything about 'nobody'.\n"
    times = [json.loads(text)["time"] for text in invoke(agents, "events", "--json").splitlines()]
    assert times == sorted(times)


def test_an_agent_that_is_never_idle_tells_what_has_just_happened() -> None:
    with holdfast.local_cluster(nodes=1) as cluster, ThreadPoolExecutor(4) as pool:
        over = threading.Event()

        def ask() -> None:
            with cluster.connect() as job:
                client, agent = job._connection.client, job._connection.routing.live[0]
                while not over.is_set():
                    client.call(agent.socket, "agent", "metrics", b"")

        asking = [pool.submit(ask) for _ in range(4)]
        try:
            with cluster.connect() as job:
                for number in range(12):  # fewer than an agent tells of in a second
                    job.objects.put(f"taken-{number}", b"first", copies=1)
                    with pytest.raises(KeyExists) as taken:
                        job.objects.put(f"taken-{number}", b"other", copies=1)
                    [told] = taken.value.story
                    assert f"refused put 'taken-{number}'" in told
        finally:
            over.set()
        for one in asking:
            one.result()


def test_an_error_that_names_a_file_carries_its_story(
    agents: holdfast.LocalCluster, tmp_path: Path
) -> None:
    paths = [tmp_path / f"file-{number}" for number in range(64)]
    for path in paths:
        path.write_bytes(b"content")
        os.utime(path, (0, 0))
    with agents.connect() as job:
        files = job.files(tmp_path, on_failure="abort")
        agents.kill(2)
        wanted: list[Path] = []

        def read_all() -> None:
            for path in paths:  # some of them are the dead node's
                wanted.append(path)
                files.read(path.name)

        with pytest.raises(Unavailable) as caught:
            read_all()
    story = caught.value.story
    assert any(f"node-2 failed '{wanted[-1]}': " in told for told in story), story
    assert vars(caught.value)["__notes__"][1:] == list(story)


def _last_views(agents: holdfast.LocalCluster) -> dict[str, int]:
    """Return how many members each agent's latest view has."""
    return {event.node: event.count for event in agents.story() if event.kind == "view"}


def _lost_one(job: holdfast.Job) -> bool:
    """Whether something was lost with the node, and the error says what became of that."""
    for number in range(12):
        try:
            job.objects.get(f"single-{number}")
        except Unavailable as error:
            return any("node-2 died" in told for told in error.story)
    return False


def test_a_flood_of_refusals_is_counted_and_not_told_one_by_one(
    agents: holdfast.LocalCluster,
) -> None:
    with agents.connect() as job:
        job.objects.put("taken", b"first", copies=1)
        refused = 0

        def told() -> list[Event]:
            return [event for event in agents.story() if event.kind == "refused"]

        def left_out() -> bool:
            nonlocal refused
            for _ in range(50):
                with pytest.raises(KeyExists):
                    job.objects.put("taken", b"other", copies=1)
                refused += 1
            time.sleep(0.3)
            return any(event.count for event in told())

        # One that comes a second later tells how many were left out.
        wait_for(left_out)
        assert len(told()) + sum(event.count for event in told()) <= refused


def test_what_fails_a_block_is_told_after_its_cluster_is_gone() -> None:
    with pytest.raises(ZeroDivisionError), holdfast.local_cluster(nodes=1) as cluster:
        raise ZeroDivisionError
    assert [event.kind for event in cluster.story()][:2] == ["started", "view"]


def test_a_test_that_fails_prints_the_story_of_its_clusters(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = Path(__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", str(tests))
    pytester.makeconftest((tests / "conftest.py").read_text())
    pytester.makepyfile("""
        import pytest

        import holdfast

        def test_its_own() -> None:
            with holdfast.local_cluster(nodes=1) as cluster:
                assert cluster is None

        def test_of_a_fixture(job) -> None:
            assert job is None

        class Shell:
            def __init__(self, cluster) -> None:
                self.cluster = cluster

        @pytest.fixture
        def shell():
            with holdfast.local_cluster(nodes=1) as cluster:
                yield Shell(cluster)

        def test_of_what_a_fixture_holds(shell) -> None:
            assert shell is None
    """)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=3)
    assert len([text for text in result.outlines if "- story -" in text]) == 3
    result.stdout.fnmatch_lines(["*node-0  view of 1 node: node-0", "*node-3  *"])


def test_a_test_that_fails_prints_the_story_of_a_session_of_commands(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = Path(__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", str(tests))
    pytester.makeconftest((tests / "conftest.py").read_text())
    pytester.makepyfile("""
        import os
        import signal

        import pytest
        from support.commands import run

        from holdfast import config
        from holdfast.session import session as sessions

        @pytest.fixture
        def session():
            run("up", "--nodes", "2", "--set", "memory=16 MiB", "--set", "disk=16 MiB")
            first, last = sessions.agents(sessions.directory(config.load().config))
            os.kill(last.process.pid, signal.SIGSTOP)
            yield
            os.kill(last.process.pid, signal.SIGCONT)
            run("down")

        def test_of_a_session(session) -> None:
            assert session
    """)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*- story of /*/local -*", "*node-0  view of 2 nodes: *", "node-1 told nothing"]
    )


# ---- waiting


def test_who_waits_for_a_stopped_agent_goes_on_when_its_death_is_agreed(tmp_path: Path) -> None:
    root = tmp_path / "shared"
    root.mkdir()
    for number in range(32):
        path = root / f"file-{number}"
        path.write_bytes(b"content" * 1000)
        os.utime(path, (0, 0))
    with (
        holdfast.local_cluster(nodes=4, deadline=DEADLINE, file_deadline=DEADLINE) as cluster,
        cluster.connect() as job,
        cluster.connect() as other,
    ):
        owners = job._connection.routing.owners

        def owned(key: bytes) -> bool:
            return owners.of(key, 1)[0].node == "node-1"

        theirs = [
            name
            for name in sorted(os.listdir(root))
            if owned(_core.FILE_PREFIX + f"{root}/{name}".encode() + b"\0")
        ]
        key = next(f"key-{n}" for n in range(100) if owned(f"key-{n}".encode()))
        job.objects.put(key, b"object", copies=2)
        cluster.stop(1)
        begin = time.monotonic()
        # Through our agent, straight to the owner, and an object: each has met nobody's silence.
        with job.files(root).open(theirs[0]) as file:
            assert file.read() == b"content" * 1000
        assert other.files(root).read(theirs[1]) == b"content" * 1000
        assert other.objects.get(key) == b"object"
        assert time.monotonic() - begin < WITHIN
        [waited] = [
            event
            for event in cluster.story()
            if event.kind == "waited" and event.what == "fetch" and "node-1" in event.names
        ]
        assert waited.about == f"{root}/{theirs[0]}"
        assert waited.cause.startswith("Unavailable")
        assert 0 < waited.seconds < WITHIN
        cluster.resume(1)
