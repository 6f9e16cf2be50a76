"""Copies of a program's data in the memory of its MPI ranks, for programs that outlive ranks."""

from __future__ import annotations

from .blocks import Blocks
from .recovery import Recovery
from .replicas import Memory, Replicas, Restored
from .shares import Shares

__all__ = ["Blocks", "Memory", "Recovery", "Replicas", "Restored", "Shares"]
