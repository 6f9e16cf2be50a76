import pytest

from holdfast.bench.measure import Samples, interleave, median_time


def test_ratio_is_the_median_of_the_ratios_of_each_round():
    samples = Samples({"ours": [2.0, 30.0, 8.0], "raw": [1.0, 10.0, 1.0]})
    # 2, 3 and 8; the ratio of the medians would be 8.
    assert samples.ratio("ours", "raw") == 3.0
    assert samples.middle("ours") == 8.0


def test_contestants_take_turns_and_every_other_round_goes_backwards():
    seen = []

    def contestant(name):
        return lambda: float(seen.append(name) or len(seen))

    samples = interleave({name: contestant(name) for name in "abc"}, rounds=3)
    assert "".join(seen) == "abccbaabc"
    assert samples == {"a": [1.0, 6.0, 7.0], "b": [2.0, 5.0, 8.0], "c": [3.0, 4.0, 9.0]}


def test_rounds_that_do_not_match_are_a_mistake():
    with pytest.raises(ValueError, match="shorter"):
        Samples({"a": [1.0, 2.0], "b": [1.0]}).ratio("a", "b")


def test_an_action_runs_at_least_once_and_is_cleaned_up_after():
    cleaned = []
    assert median_time(lambda: "thing", 0, after=cleaned.append) >= 0
    assert cleaned == ["thing"]
