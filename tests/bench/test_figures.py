import msgspec
import pytest

from holdfast.bench.figures import Figure, Report, at_least, at_most, shown


def test_a_figure_knows_whether_its_target_is_met():
    assert at_most("n", 1.5, 1.5, "x", "c").met is True
    assert at_most("n", 1.51, 1.5, "x", "c").met is False
    assert at_least("n", 0.8, 0.8, "", "c").met is True
    assert at_least("n", 0.79, 0.8, "", "c").met is False
    assert shown("n", 3.0, "x").met is None


def test_what_could_not_be_measured_is_neither_met_nor_missed():
    figure = at_least("n", None, 2, "x its rate", "Redis")
    assert (figure.value, figure.met, figure.text()) == (None, None, "not measured")


def test_json_has_the_documented_fields():
    report = Report("core", [at_most("get", 1.25, 1.5, "x its time", "ping-pong")], {"raw": 10.0})
    assert msgspec.json.decode(msgspec.json.encode(report)) == {
        "bench": "core",
        "figures": [
            {
                "name": "get",
                "value": 1.25,
                "unit": "x its time",
                "target": "at most 1.5",
                "met": True,
                "compared_with": "ping-pong",
            }
        ],
        "baselines": {"raw": 10.0},
        "invalid": [],
        "notes": [],
    }


@pytest.mark.parametrize(("value", "text"), [(1.2345, "1.23 MB"), (82.0, "82 MB")])
def test_values_are_shown_with_three_digits(value, text):
    assert (
        Figure(name="n", value=value, unit="MB", target="", met=None, compared_with="").text()
        == text
    )
