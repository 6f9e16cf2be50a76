"""Shares, counts and rates of failures as people write them."""

import pytest

from holdfast.errors import BadInput
from holdfast.units import parse_count, parse_frequency, parse_share


def test_what_people_write() -> None:
    assert parse_share("6%") == pytest.approx(0.06)
    assert parse_share("6.25 %") == pytest.approx(0.0625)
    assert parse_share(0.5) == 0.5
    assert parse_count("2^25") == 33_554_432
    assert parse_count("1,024") == 1024
    assert parse_count("1e6") == 1_000_000
    assert parse_frequency("2.0e-5") == 2.0e-5
    assert parse_frequency("2e-5/s") == 2e-5
    assert parse_frequency("1.8 / day") == pytest.approx(1.8 / 86400)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_share, "600%"), (parse_share, "many"), (parse_share, "-1%"), (parse_share, "6 kg"),
        (parse_count, "2.5"), (parse_count, "2^"), (parse_count, "2^99"), (parse_count, "-3"),
        (parse_count, "ten"), (parse_frequency, "1/fortnight"), (parse_frequency, "often"),
        (parse_frequency, "/day"), (parse_frequency, "-1e-5"), (parse_frequency, "1/"),
    ],
)  # fmt: skip
def test_what_they_do_not(parse, text) -> None:
    with pytest.raises(BadInput, match="write it like"):
        parse(text)
