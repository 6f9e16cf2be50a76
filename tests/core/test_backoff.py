"""The back-off from the own agent, as Python sees it; tests/native has the rest."""

from __future__ import annotations

from holdfast import _core


def test_each_failure_in_a_row_doubles_the_pause_and_an_answer_ends_it() -> None:
    backoff = _core.Backoff()
    now = 1000.0
    assert not backoff.backs_off(now)
    for pause in (0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0):
        backoff.failed(now)
        backoff.failed(now + pause / 2)  # together with it
        assert backoff.backs_off(now + pause - 0.05)
        now += pause + 0.05
        assert not backoff.backs_off(now)
    backoff.failed(now)
    backoff.answered()
    assert not backoff.backs_off(now)
