"""Sizes, times and rates as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadInput
from holdfast.units import format_size, format_time, parse_rate, parse_size, parse_time


@pytest.mark.parametrize(
    ("text", "expected"),
    [("64 GiB", 64 << 30), ("1.5MB", 1_500_000), ("0", 0), (4096, 4096), ("1_000", 1000),
     ("10 kB", 10_000), ("1e3", 1000), ("2kib", 2048)],
)  # fmt: skip
def test_sizes(text: str | int, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30 s", 30), ("250ms", 0.25), ("13h", 46800), ("2 d", 172800), (1.5, 1.5), ("5 µs", 5e-6)],
)
def test_times(text: str | float, expected: float) -> None:
    assert parse_time(text) == pytest.approx(expected)


def test_rates() -> None:
    assert parse_rate("6.4 GB/s") == 6.4e9
    assert parse_rate("16 MiB") == 16 << 20
    with pytest.raises(BadInput, match="rate"):
        parse_rate("6.4 GB/h")


@pytest.mark.parametrize("text", ["", "GiB", "12 bananas", "-1", "1..2", "nan", "inf", "1e400"])
def test_nonsense_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(BadInput, match="write it like"):
        parse_size(text)
    with pytest.raises(BadInput, match="write it like"):
        parse_time(text)


@given(st.integers(0, 2**60))
def test_formatted_sizes_are_close(size: int) -> None:
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.06)


@given(st.floats(1e-6, 1e7))
def test_formatted_times_are_close(seconds: float) -> None:
    assert parse_time(format_time(seconds)) == pytest.approx(seconds, rel=0.01)
