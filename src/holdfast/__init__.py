"""Holdfast: the data layer of HPC jobs.

It keeps the bytes a job needs close to its processes, and keeps them there when nodes die.
"""

from __future__ import annotations

__version__ = "0.1.0"
