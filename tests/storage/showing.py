"""What the tests of the counting storage import from one another."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from holdfast.testing.countfs import CountingFS

#: Makes a storage with these options that ends with the test.
Show = Callable[..., CountingFS]


@contextmanager
def running(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command whose output nobody wants; it does not outlive the block."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()
