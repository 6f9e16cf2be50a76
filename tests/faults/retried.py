"""Requests that are repeated as long as they are told to try again, as a program would."""

from __future__ import annotations

import time

import holdfast
from holdfast import errors


def put(job: holdfast.Job, key: str, data: bytes, copies: int = 2) -> None:
    """Put until it is acknowledged, as a program would."""
    end = time.monotonic() + 30
    while True:
        try:
            return job.objects.put(key, data, copies=copies)
        except errors.TryAgain:
            assert time.monotonic() < end, "it was never acknowledged"


def get(job: holdfast.Job, key: str) -> bytes:
    """Get until somebody has it."""
    end = time.monotonic() + 30
    while True:
        try:
            return job.objects.get(key)
        except errors.TryAgain:
            assert time.monotonic() < end, "it was never found"
