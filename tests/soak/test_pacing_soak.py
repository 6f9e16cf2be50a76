"""Connections that carry small and large bodies in turns: large ones do not wait for a pacer."""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path

import pytest

import holdfast

FILES, LARGE, SMALL = 100, 2_500_000, 100
ROUNDS = 10
_ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")


@pytest.mark.soak
@pytest.mark.skipif("bbr" not in _ALLOWED.read_text(), reason="this system does not allow BBR")
def test_a_large_body_after_small_ones_comes_faster_than_bbr_would_let_it(tmp_path: Path) -> None:
    content = random.Random(0).randbytes(LARGE)
    for number in range(FILES):
        (tmp_path / f"large-{number}").write_bytes(content)
        (tmp_path / f"small-{number}").write_bytes(content[:SMALL])
    settings = {"memory": "512 MiB", "file_tier": "memory", "file_settled": "0 s"}
    took: dict[str, list[float]] = {"auto": [], "bbr": []}
    with (
        holdfast.local_cluster(4, **settings, congestion="auto") as ours,
        holdfast.local_cluster(4, **settings, congestion="bbr") as paced,
        ours.connect() as job,
        paced.connect() as other,
    ):
        by_control = {"auto": job.files(tmp_path), "bbr": other.files(tmp_path)}
        for files in by_control.values():
            files.warm()
        for number in list(range(FILES)) * ROUNDS:
            for control, files in by_control.items():  # in turns: they share the machine's moods
                assert files.read(f"small-{number}") == content[:SMALL]
                begin = time.perf_counter()
                with files.open(f"large-{number}") as file:
                    took[control].append(time.perf_counter() - begin)
                    assert file.read() == content
    auto, bbr = figures(took["auto"]), figures(took["bbr"])
    for name in auto:
        print(
            f"{name}: auto {auto[name] * 1e3:.1f} ms, bbr {bbr[name] * 1e3:.1f} ms, "
            f"ratio {auto[name] / bbr[name]:.2f}"
        )
    assert auto["median"] < 0.8 * bbr["median"]
    # One open in a hundred was what had been noticed; but on a busy machine these wait for cores.
    assert auto["99th percentile"] < 1.5 * bbr["99th percentile"]


def figures(times: list[float]) -> dict[str, float]:
    """Tell how long they took: most of them, one in a hundred, and the longest."""
    return {
        "median": statistics.median(times),
        "99th percentile": statistics.quantiles(times, n=100)[98],
        "longest": max(times),
    }
