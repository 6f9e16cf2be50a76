"""What an agent counts, as OpenMetrics: on a local port, and in a file at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from ..client.messages import AgentStatus

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

#: Counters of an agent that may also fall: gauges in the words of OpenMetrics.
_GAUGES = {"connections", "tombstone_bytes", "tombstones", "tree_depth"}


def render(status: AgentStatus) -> str:
    """Write the status of one agent as OpenMetrics."""
    label = f'node="{status.node}"'
    lines: list[str] = []
    for name, value in status.counters.items():
        if name in _GAUGES:
            lines += _family(name, "gauge", [(label, value)])
        else:
            lines += _family(name, "counter", [(label, value)])
    for name in ("objects", "bytes", "occupied", "reserved", "capacity", "condemned"):
        samples = [(f'{label},tier="{tier}"', usage[name]) for tier, usage in status.tiers.items()]
        lines += _family(f"tier_{name}", "gauge", samples)
    states = [(f'{label},state="{state}"', count) for state, count in status.members.items()]
    lines += _family("members", "gauge", states)
    lines += _family("incarnation", "gauge", [(label, status.incarnation)])
    lines += _family("detection_seconds", "gauge", [(label, status.detection)])
    restoring = status.restoring
    for name in (
        "missing",
        "missing_bytes",
        "uncompared",
        "conflicts",
        "partition_wait_left",
        "under_replicated",
    ):
        lines += _family(f"restoring_{name}", "gauge", [(label, getattr(restoring, name))])
    together = len(restoring.died_together)
    lines += _family("restoring_died_together", "gauge", [(label, together)])
    for name in ("restored", "restored_bytes", "trimmed"):
        lines += _family(f"restoring_{name}", "counter", [(label, getattr(restoring, name))])
    return "\n".join([*lines, "# EOF", ""])


def _family(name: str, kind: str, samples: Sequence[tuple[str, float]]) -> Iterator[str]:
    yield f"# TYPE holdfast_{name} {kind}"
    suffix = "_total" if kind == "counter" else ""
    for labels, value in samples:
        yield f"holdfast_{name}{suffix}{{{labels}}} {value}"


def token(key: bytes) -> str:
    """Return what a scrape must bring, the same on all nodes; the job key cannot be had from it."""
    import hmac  # noqa: PLC0415

    return hmac.digest(key, b"holdfast metrics", "sha256").hex()


def serve(port: int, bearer: str, text: Callable[[], str]) -> None:
    """Answer scrapes on a port of the loopback interface, in a thread, until the process ends."""
    import hmac  # noqa: PLC0415
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer  # noqa: PLC0415

    class Scrape(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "").encode(errors="replace")
            if hmac.compare_digest(given, f"Bearer {bearer}".encode()):
                self._answer(200, "Content-Type", CONTENT_TYPE, text().encode())
            else:
                self._answer(401, "WWW-Authenticate", "Bearer", b"")

        def _answer(self, code: int, header: str, value: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header(header, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: a scrape is no event."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Scrape)
    threading.Thread(target=server.serve_forever, daemon=True, name="metrics").start()
