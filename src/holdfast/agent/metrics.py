"""What an agent counts, as OpenMetrics: on a local port, and in a file at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Literal

import msgspec

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Family(msgspec.Struct, frozen=True):
    """One metric of an agent: a number, or one for each value of a label."""

    name: str
    kind: Literal["gauge", "counter"]
    value: float | Mapping[str, float]
    label: str = ""


def families(
    prefix: str, status: msgspec.Struct, *, counters: Container[str] = ()
) -> Iterator[Family]:
    """Make a metric of every number in a status, and of the length of every tuple.

    Those that never fall are `counters`, the others gauges.
    """
    for name, value in msgspec.structs.asdict(status).items():
        number = len(value) if isinstance(value, tuple) else value
        if isinstance(number, int | float):
            yield Family(prefix + name, "counter" if name in counters else "gauge", number)


def render(node: str, metrics: Iterable[Family]) -> str:
    """Write the metrics of one agent as OpenMetrics."""
    lines: list[str] = []
    for family in metrics:
        lines.append(f"# TYPE holdfast_{family.name} {family.kind}")
        suffix = "_total" if family.kind == "counter" else ""
        values = family.value if isinstance(family.value, Mapping) else {"": family.value}
        for value_of_label, value in values.items():
            label = f',{family.label}="{value_of_label}"' if family.label else ""
            lines.append(f'holdfast_{family.name}{suffix}{{node="{node}"{label}}} {value}')
    return "\n".join([*lines, "# EOF", ""])


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
