"""Copies of a program's data in the memory of its MPI ranks, for programs that outlive ranks."""

from __future__ import annotations

from .inputs import Blocks
from .recovery import Recovery
from .shares import Shares
from .store import Memory, Replicas, Restored

__all__ = ["Blocks", "Memory", "Recovery", "Replicas", "Restored", "Shares"]
