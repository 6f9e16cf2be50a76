"""Holdfast: the data layer of HPC jobs.

It keeps the bytes a job needs close to its processes, and keeps them there when nodes die::

    import holdfast

    with holdfast.local_cluster(nodes=4) as cluster:
        job = cluster.connect()
        job.objects.put("greeting", b"hello", copies=2)
        cluster.kill(1)
        assert job.objects.get("greeting") == b"hello"
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import BlocksLost, HoldfastError, RanksFailed
    from .job import Job, LocalCluster, connect, local_cluster
    from .replicas import Replicas, Shares
    from .testing.faults import Faults
    from .testing.injector import inject

__version__ = "0.1.0"

#: Public name -> its module, imported on first use: an agent needs none of them.
_WHERE = {
    "BlocksLost": ".errors",
    "Faults": ".testing.faults",
    "HoldfastError": ".errors",
    "Job": ".job",
    "LocalCluster": ".job",
    "RanksFailed": ".errors",
    "Replicas": ".replicas",
    "Shares": ".replicas",
    "connect": ".job",
    "inject": ".testing.injector",
    "local_cluster": ".job",
}

__all__ = [
    "BlocksLost",
    "Faults",
    "HoldfastError",
    "Job",
    "LocalCluster",
    "RanksFailed",
    "Replicas",
    "Shares",
    "__version__",
    "connect",
    "inject",
    "local_cluster",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name], __name__), name)
