"""Runs the tests: side by side, then those that need the machine alone, then what failed once more.

usage: scripts/run_tests.py [PATH ...]

Which failures a second run may forgive tests/support/unstable.py tells; docs/explanation/testing.md
has the rule.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

#: So many at a time: most wait for clocks, and there is a core for each of two.
WORKERS = 3
PASSES = (
    ("-m", "not soak and not alone", "-n", str(WORKERS), "--dist", "worksteal"),
    ("-m", "not soak and alone"),
)
#: Of pytest: all passed, some failed, there was none.
ORDINARY = (0, 1, 5)
#: More are no accident.
MOST_UNSTABLE = 2
UNSTABLE = Path("build/unstable.txt")


class Results:
    """What came of the tests of some passes."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.failures: dict[str, str] = {}
        self.unforgivable: dict[str, str] = {}
        self.broken = False

    def run(self, *arguments: str) -> None:
        """Run pytest once, and add what came of it."""
        with tempfile.NamedTemporaryFile(prefix="outcomes-") as file:
            command = [sys.executable, "-m", "pytest", f"--outcomes={file.name}", *arguments]
            code = subprocess.run(command, check=False).returncode
            before = len(self.failures)
            for line in file:
                self._add(json.loads(line))
        # Errors of collection, for one, belong to no test.
        self.broken |= code not in ORDINARY or (code == 1) != (len(self.failures) > before)

    def _add(self, report: dict[str, str]) -> None:
        test, outcome = report["test"], report["outcome"]
        if outcome == "failed":
            self.failures[test] = self.failures.get(test, "") + report["text"] + "\n"
            if report["why_not"]:
                self.unforgivable[test] = report["why_not"]
        elif report["when"] == "call" or outcome == "skipped":
            self.outcomes[test] = outcome

    def number(self, outcome: str) -> int:
        """Return how many tests passed, or were skipped."""
        return sum(
            one == outcome for test, one in self.outcomes.items() if test not in self.failures
        )


def main(paths: list[str]) -> int:
    """Run all passes; returns what to exit with."""
    UNSTABLE.unlink(missing_ok=True)
    first, second = Results(), Results()
    for options in PASSES:
        first.run(*options, *paths)
    suspects = [test for test in first.failures if test not in first.unforgivable]
    if 0 < len(suspects) <= MOST_UNSTABLE:
        second.run(*suspects)
    forgiven = [test for test in suspects if second.outcomes.get(test) == "passed"]
    forgiven = [test for test in forgiven if test not in second.failures]
    for test, reason in first.unforgivable.items():
        print(f"no second run forgives {test}: {reason}")
    if len(suspects) > MOST_UNSTABLE:
        print(f"{len(suspects)} time-outs and counts are not run again: more than {MOST_UNSTABLE}")
    if forgiven:
        text = "\n".join([f"unstable: {len(forgiven)}", *(_shown(first, one) for one in forgiven)])
        UNSTABLE.parent.mkdir(exist_ok=True)
        UNSTABLE.write_text(text)
        print(text, end="")
    failed = len(first.failures) - len(forgiven)
    passed = first.number("passed") + len(forgiven)
    print(f"{passed} passed, {failed} failed, {first.number('skipped')} skipped")
    return int(failed > 0 or first.broken or second.broken)


def _shown(results: Results, test: str) -> str:
    return f"{test} passed when it was run again, alone. It had failed:\n{results.failures[test]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
