"""The programs behind `holdfast bench`: they do what they are said to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.bench import programs
from holdfast.bench.files import readers
from holdfast.bench.programs import Run
from holdfast.errors import HoldfastError


def test_raw_requests_of_many_sizes_to_several_servers() -> None:
    core = programs.two_cores()[0]
    with (
        programs.server(core, "blocking_server", "tcp:127.0.0.1:0", 3000) as first,
        programs.server(core, "blocking_server", "tcp:127.0.0.1:0", 3000) as second,
    ):
        pace = programs.client(core, "raw_client", f"{first},{second}", "1000-3000", 2, 50)
    assert len(pace.each) == 2
    assert pace.per_second == pytest.approx(sum(pace.each))
    assert pace.seconds > 0


def test_files_are_read_by_several_programs_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"file {size}" for size in (0, 1, 100_000)]
    for path in paths:
        path.write_bytes(b"x" * int(path.name.split()[1]))
    names = "".join(f"{path}\n" for path in paths).encode()
    run = Run(programs.two_cores()[0], "file_loop", (2, 50), names)
    paces = programs.clients([run, run])
    assert [len(pace.each) for pace in paces] == [2, 2]
    assert readers.together([run]).per_second > 0


def test_a_reader_that_finds_no_file_says_so(tmp_path: Path) -> None:
    run = Run(programs.two_cores()[0], "file_loop", (1, 50), f"{tmp_path}/missing\n".encode())
    with pytest.raises(HoldfastError, match="missing: No such file"):
        programs.clients([run])


def test_sizes_are_spread_evenly_from_half_to_one_and_a_half() -> None:
    sizes = readers.spread(100_000)
    assert (sizes[0], sizes[-1]) == (50_000, 150_000)
    assert sizes == sorted(set(sizes))
