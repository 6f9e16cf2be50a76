"""job.objects on four real agents: what is promised when nothing fails, and what mistakes say."""

from __future__ import annotations

import multiprocessing
import os
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast import errors

SIZES = [0, 1, 64, 65_535, 65_536, 65_537, 1_000_003, 4 << 20]


@pytest.mark.parametrize("tier", ["memory", "disk"])
@pytest.mark.parametrize("size", SIZES)
def test_what_was_put_is_got(job: holdfast.Job, size: int, tier: str) -> None:
    data = os.urandom(size)
    job.objects.put("key", data, copies=2, tier=tier)
    assert job.objects.get("key") == data
    out = bytearray(size + 8)
    assert job.objects.get_into("key", out) == size
    assert out[:size] == data
    assert bytes(job.objects.view("key")) == data
    info = job.objects.stat("key")
    assert (info.size, info.tier, info.copies) == (size, tier, 2)


def holders(cluster: holdfast.LocalCluster, key: str) -> list[str]:
    """Nodes that hold `key`, asked one by one."""
    found = []
    for member in (node.member for node in cluster.nodes):
        try:
            cluster.connect()._connection.client.stat(member.socket, key.encode())
        except errors.NotFound:
            continue
        found.append(member.node)
    return found


@pytest.mark.parametrize("copies", [1, 2, 3, 4])
def test_an_acknowledged_put_is_on_as_many_nodes_as_asked(
    cluster: holdfast.LocalCluster, job: holdfast.Job, copies: int
) -> None:
    for number in range(10):
        job.objects.put(f"key-{number}", b"x" * number * 20_000, copies=copies)
        assert len(holders(cluster, f"key-{number}")) == copies


def test_every_node_finds_what_another_put(cluster: holdfast.LocalCluster) -> None:
    data = os.urandom(200_000)
    for node in range(4):
        cluster.connect(node).objects.put(f"from-{node}", data + bytes([node]), copies=1)
    for node in range(4):
        job = cluster.connect(node)
        for other in range(4):
            assert job.objects.get(f"from-{other}") == data + bytes([other])


def test_a_key_is_written_once(job: holdfast.Job) -> None:
    for size in (100, 200_000):
        data = os.urandom(size)
        job.objects.put(f"key-{size}", data)
        job.objects.put(f"key-{size}", data)  # the same bytes again are fine
        with pytest.raises(errors.KeyExists, match="has other contents"):
            job.objects.put(f"key-{size}", data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(errors.KeyExists):
            job.objects.put(f"key-{size}", data + b"x")
        assert job.objects.get(f"key-{size}") == data


def test_many_writers_of_one_key_agree_on_one_of_them(cluster: holdfast.LocalCluster) -> None:
    outcomes: list[bytes] = []

    def write(node: int, data: bytes) -> None:
        try:
            cluster.connect(node).objects.put("contested", data, copies=3)
            outcomes.append(data)
        except errors.KeyExists:
            pass

    writers = [threading.Thread(target=write, args=(n % 4, bytes([n]) * 100_000)) for n in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(outcomes) == 1
    for node in range(4):
        assert cluster.connect(node).objects.get("contested") == outcomes[0]


def test_not_found_is_said_only_when_everybody_answered(job: holdfast.Job) -> None:
    with pytest.raises(errors.NotFound, match="no node has 'nothing'"):
        job.objects.get("nothing")
    with pytest.raises(errors.NotFound):
        job.objects.stat("nothing")
    with pytest.raises(errors.NotFound):
        job.objects.drop("nothing")


def test_list_and_drop(cluster: holdfast.LocalCluster, job: holdfast.Job) -> None:
    for number in range(20):
        job.objects.put(f"a/{number:02}", b"x" * number)
    job.objects.put("b", b"other")
    listing = job.objects.list("a/")
    assert [info.key for info in listing] == [f"a/{number:02}" for number in range(20)]
    assert [info.size for info in listing] == list(range(20))
    assert listing.missing == ()
    job.objects.drop("a/07")
    assert holders(cluster, "a/07") == []
    assert len(job.objects.list("a/")) == 19
    assert len(job.objects.list()) == 20


def test_a_long_list_comes_in_pages(job: holdfast.Job) -> None:
    keys = [f"{number:05}" + "k" * 200 for number in range(3000)]
    for key in keys:
        job.objects.put(key, b"", copies=1)
    assert [info.key for info in job.objects.list()] == keys


def test_a_view_of_a_local_object_is_a_map_of_its_file(
    cluster: holdfast.LocalCluster, job: holdfast.Job
) -> None:
    data = os.urandom(1 << 20)
    job.objects.put("big", data, copies=4)  # so that it is here
    view = job.objects.view("big")
    assert view.readonly
    assert view == data
    maps = Path("/proc/self/maps").read_text()
    [file] = cluster.nodes[0].tiers.in_memory()
    assert Path(file).name in maps
    job.objects.drop("big")
    assert view == data, "a view outlives its object"


def test_keys_may_be_any_bytes(job: holdfast.Job) -> None:
    for key in ("ключ/a b", b"\xff\x00\n", "x" * 4096):
        job.objects.put(key, b"value")
        assert job.objects.get(key) == b"value"
    assert len(job.objects.list()) == 3


@pytest.mark.parametrize(
    ("key", "data", "arguments", "error", "message"),
    [
        ("", b"x", {}, errors.BadInput, "1 to 4096 bytes"),
        ("x" * 4097, b"x", {}, errors.BadInput, "1 to 4096 bytes"),
        ("k", "text", {}, errors.BadInput, "contiguous buffer"),
        ("k", memoryview(b"abcdef")[::2], {}, errors.BadInput, "contiguous buffer"),
        (5, b"x", {}, errors.BadInput, "str or bytes, not int"),
        ("k", b"x", {"copies": 0}, errors.BadInput, "from 1 to 16"),
        ("k", b"x", {"copies": "2"}, errors.BadInput, "from 1 to 16"),
        ("k", b"x", {"copies": 5}, errors.NotEnoughNodes, "4 of 4 are alive"),
        ("k", b"x", {"tier": "tape"}, errors.BadInput, "'memory' or 'disk'"),
    ],
)
def test_mistakes_get_a_sentence(
    job: holdfast.Job,
    key: str,
    data: bytes,
    arguments: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        job.objects.put(key, data, **arguments)
    assert job.objects.list() == []


@pytest.mark.parametrize(
    ("prefix", "version", "message"),
    [
        ("", 5, "1 to 4096 bytes"),
        ("T/1", 5, "ends in a digit; end it where the version begins"),
        ("@file/x/", 5, "reserved for files"),
        (7, 5, "must be a str or bytes"),
        ("T/", "5", "use a whole number"),
        ("T/", 1.5, "use a whole number"),
        ("T/", 2**64, "the greatest is"),
        ("T\ud800/", 5, "lone surrogate"),
    ],
)
def test_versions_are_not_dropped_by_mistake(
    job: holdfast.Job, prefix: object, version: object, message: str
) -> None:
    job.objects.put("T/1", b"stays", copies=1)
    with pytest.raises(errors.BadInput, match=message):
        job.objects.drop_below(prefix, version)
    assert job.objects.get("T/1") == b"stays"
    job.objects.drop("T/1")


def test_a_lone_surrogate_is_no_key_and_no_beginning_of_one(job: holdfast.Job) -> None:
    for call in (job.objects.get, job.objects.view, job.objects.stat, job.objects.drop):
        with pytest.raises(errors.BadInput, match="lone surrogate at 1"):
            call("a\ud800")
    with pytest.raises(errors.BadInput, match="lone surrogate at 1"):
        job.objects.put("a\ud800", b"")
    with pytest.raises(errors.BadInput, match="lone surrogate at 1"):
        job.objects.list("a\ud800")
    with pytest.raises(errors.BadInput, match="str or bytes, not int"):
        job.objects.list(5)  # type: ignore[arg-type]
    job.objects.put(
        b"a\xff/key", b"", copies=1
    )  # bytes that are not UTF-8 are escaped as in `list`
    (found,) = job.objects.list("a\udcff")
    assert job.objects.get(found.key) == b""


def test_a_buffer_that_is_too_small_is_refused_and_the_client_goes_on(job: holdfast.Job) -> None:
    job.objects.put("k", b"x" * 100)
    with pytest.raises(errors.BadInput, match="10 bytes"):
        job.objects.get_into("k", bytearray(10))
    with pytest.raises(errors.BadInput, match="writable"):
        job.objects.get_into("k", b"read only")
    assert job.objects.get("k") == b"x" * 100


def test_threads_share_a_job(job: holdfast.Job) -> None:
    wrong = []

    def work(worker: int) -> None:
        for number in range(30):
            data = bytes([worker]) * (number * 5000 + 1)
            job.objects.put(f"{worker}/{number}", data)
            if job.objects.get(f"{worker}/{number}") != data:
                wrong.append((worker, number))

    workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert len(job.objects.list()) == 240


def _child(job: holdfast.Job, data: bytes, answers: multiprocessing.SimpleQueue) -> None:
    answers.put(all(job.objects.get("shared") == data for _ in range(50)))


def test_a_forked_child_has_connections_of_its_own(job: holdfast.Job) -> None:
    data = os.urandom(300_000)
    job.objects.put("shared", data)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    children = [context.Process(target=_child, args=(job, data, answers)) for _ in range(4)]
    for child in children:
        child.start()
    assert all(job.objects.get("shared") == data for _ in range(50))
    for child in children:
        child.join()
        child.close()
    assert all(answers.get() for _ in children)
    answers.close()


def test_the_node_may_be_chosen(
    cluster: holdfast.LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_RUN_DIR", str(cluster.directory.parent))
    monkeypatch.setenv("HOLDFAST_NODE", "node-2")
    assert holdfast.connect(session=cluster.directory.name).node == "node-2"
    with pytest.raises(errors.BadInput, match="no node 'node-9'"):
        holdfast.connect(session=cluster.directory.name, node="node-9")
    with pytest.raises(errors.NoSession, match=r"no session 'typo'.* `holdfast up` starts one"):
        holdfast.connect(session="typo")


def test_all_clients_use_the_ring_of_the_session(
    cluster: holdfast.LocalCluster, job: holdfast.Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_RUN_DIR", str(cluster.directory.parent))
    other = holdfast.connect(session=cluster.directory.name, virtual_nodes=3)
    for number in range(50):
        key = f"key-{number}".encode()
        mine, theirs = job._connection.routing.owners, other._connection.routing.owners
        assert mine.of(key, 4) == theirs.of(key, 4)


@pytest.mark.parametrize("tier", ["memory", "disk"])
@pytest.mark.parametrize("size", [0, 1000, 100_000])
def test_a_header_is_kept_with_its_object(job: holdfast.Job, size: int, tier: str) -> None:
    data, header = os.urandom(size), os.urandom(1024)
    job.objects.put("with", data, tier=tier, header=header)
    job.objects.put("without", data, tier=tier)
    assert job.objects.get("with") == job.objects.get("without") == data
    info, plain = job.objects.stat("with"), job.objects.stat("without")
    assert info.header == header
    assert plain.header == b""
    assert info.crc32c == plain.crc32c
    listed = {one.key: one.header for one in job.objects.list("with")}
    assert listed == {"with": header, "without": b""}
    job.objects.put("with", data, tier=tier, header=header)
    for other in (b"", header[1:], header[:-1] + bytes([header[-1] ^ 1])):
        with pytest.raises(errors.KeyExists):
            job.objects.put("with", data, tier=tier, header=other)
    with pytest.raises(errors.KeyExists):
        job.objects.put("without", data, tier=tier, header=b"h")
    assert job.objects.stat("with").header == header


def test_a_header_has_a_limit_and_is_bytes(job: holdfast.Job) -> None:
    with pytest.raises(errors.BadInput, match="the header has 1025 bytes, but at most 1024"):
        job.objects.put("key", b"", header=bytes(1025))
    with pytest.raises(errors.BadInput, match="the header must be bytes, not str"):
        job.objects.put("key", b"", header="text")  # type: ignore[arg-type]
    (member, *_) = job._connection.routing.live  # who does not go through our API
    client, address = job._connection.client, job._connection.routing.address(member)
    with pytest.raises(errors.BadInput, match="at most 1024 bytes, not 1025"):
        client.put([address], [member.number], b"key", b"", header=bytes(1025))
    with pytest.raises(errors.NotFound):
        job.objects.get("key")


def test_a_page_of_objects_with_headers_ends_where_the_next_begins(job: holdfast.Job) -> None:
    keys = [f"long/{number:03}" for number in range(600)]
    for key in keys:
        job.objects.put(key, b"", copies=1, header=key.encode() * 120)
    listing = job.objects.list("long/")
    assert [one.key for one in listing] == keys
    assert all(one.header == one.key.encode() * 120 for one in listing)
