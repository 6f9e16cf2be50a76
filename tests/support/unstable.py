"""A plugin of pytest that tells which failures a second run may forgive; scripts/run_tests.py asks.

Only a time-out, or a comparison with the opens that a storage counted, says no more than that the
machine was busy. docs/explanation/testing.md has the rule. Whatever is not plainly one of these is
not forgiven.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

import pytest
from support.children import children

from holdfast.testing.countfs import Opens

#: DeadlineMissed is a TimeoutError; Unavailable is none: it may stand for bytes that are gone.
TIMEOUTS = (TimeoutError, subprocess.TimeoutExpired)
#: What pytest-timeout raises has no class of its own.
OF_PYTEST_TIMEOUT = " from pytest-timeout"
CRASHES = {
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGSEGV,
    signal.SIGSYS,
    signal.SIGTRAP,
}
#: What a crash or a sanitizer prints, wherever the report shows it.
SIGNS = (
    "Sanitizer",
    "runtime error: ",
    "Segmentation fault",
    "Bus error",
    "core dumped",
    "Fatal Python error",
    "terminate called",
)


class Evidence:
    """What happened in one test besides the exception that ended it."""

    def __init__(self) -> None:
        self.crashed: list[str] = []
        self._at: tuple[CodeType, int] | None = None
        self._of_counts = False

    def compared(self, at: tuple[CodeType, int], of_counts: bool) -> None:
        """Note a comparison of an assertion; all that one assertion made must be of counts."""
        self._of_counts = of_counts and (at != self._at or self._of_counts)
        self._at = at

    def counted(self, info: pytest.ExceptionInfo[BaseException]) -> bool:
        """Tell whether the assertion that failed compared counts."""
        last = info.tb
        while last.tb_next is not None:
            last = last.tb_next
        at = last.tb_frame.f_code, last.tb_lineno
        return info.type is AssertionError and self._of_counts and at == self._at


_evidence = Evidence()


def _is_crash(code: int) -> bool:
    """Tell what the return code of a process says, negative for a signal, or that of its shell."""
    return -code in CRASHES or code - 128 in CRASHES


def _note_return_code(process: subprocess.Popen[Any], code: int | None) -> None:
    process.__dict__["returncode"] = code
    if code is not None and _is_crash(code):
        _evidence.crashed.append(f"{process.args} ended with {code}")


def _note_the_dead() -> None:
    """Note crashes that nobody has waited for, as of agents of a cluster of a fixture."""
    for child in children():
        if child.ended and _is_crash(code := os.waitstatus_to_exitcode(child.status)):
            _evidence.crashed.append(f"{child.name} (process {child.pid}) ended with {code}")


# A property instead of the attribute, since only so every crash of a child is seen.
subprocess.Popen.returncode = property(  # type: ignore[assignment]
    lambda process: process.__dict__.get("returncode"), _note_return_code
)


def why_not(
    when: str, info: pytest.ExceptionInfo[BaseException], text: str, evidence: Evidence
) -> str:
    """Tell why no second run forgives a failure; empty if one may."""
    if when == "teardown":
        return "it failed after its end, as a test does that leaves something behind"
    if evidence.crashed:
        return evidence.crashed[0]
    if signs := [sign for sign in SIGNS if sign in text]:
        return f"its report has {signs[0]!r}"
    if evidence.counted(info):
        return ""
    culprit = _first_besides_time_outs(info.value)
    name = type(culprit).__name__
    return f"{name} is neither a time-out nor a comparison of opens" if culprit else ""


def _first_besides_time_outs(error: BaseException | None) -> BaseException | None:
    """Return what is to blame: a time-out that came of bytes that were not found is no time-out."""
    while isinstance(error, TIMEOUTS):
        error = error.__cause__ or error.__context__
    if isinstance(error, pytest.fail.Exception) and OF_PYTEST_TIMEOUT in str(error):
        return None
    return error


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", help="write what came of each test to this file, as JSON lines")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart() -> None:
    global _evidence  # noqa: PLW0603 - one test runs at a time
    _evidence = Evidence()


def pytest_assertrepr_compare(left: object, right: object) -> None:
    """Note what an assertion compares; pytest asks so for a failed one, before it raises."""
    frame = sys._getframe(1)
    while frame.f_back is not None and not _rewritten(frame):
        frame = frame.f_back
    of_counts = isinstance(left, Opens) or isinstance(right, Opens)
    _evidence.compared((frame.f_code, frame.f_lineno), of_counts)


def _rewritten(frame: Any) -> bool:
    """Tell whether a frame belongs to a test, whose assertions pytest has rewritten."""
    return "@pytest_ar" in frame.f_globals


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed and call.excinfo is not None:
        _note_the_dead()
        text = "\n".join([report.longreprtext, *(content for _, content in report.sections)])
        report.why_not = why_not(report.when, call.excinfo, text, _evidence)


class Outcomes:
    """Writes one line for each report, where all workers send them."""

    def __init__(self, path: str) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        line = {"test": report.nodeid, "when": report.when, "outcome": report.outcome}
        if report.failed:
            # What a worker of pytest-xdist that crashed was doing has no such field.
            line["why_not"] = getattr(report, "why_not", "the process of the test ended")
            stories = [f"{name}\n{text}" for name, text in report.sections if "story" in name]
            line["text"] = "\n".join([report.longreprtext, *stories])
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--outcomes")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(path))
