"""Settings of agents that cache files, and of programs that find them."""

from __future__ import annotations

import msgspec

import holdfast
from holdfast.config import Config, load

#: Deaths are noticed in a second, and files need not be old to be kept.
SETTINGS = {
    "probe_period": "0.1 s",
    "file_settled": "0 s",
    "file_strikes": "2",
    "file_tier": "memory",
    "memory": "256 MiB",
    "disk": "256 MiB",
}
#: For tests in which nobody dies: who is slow because the machine is busy is not given up.
UNHURRIED = {**SETTINGS, "probe_period": "1 s", "file_deadline": "10 s"}


def config_of(cluster: holdfast.LocalCluster, node: int = 0, **changed: str) -> Config:
    """Return the settings of a command on a node of a cluster."""
    config = load(arguments={**SETTINGS, **changed}).config
    return msgspec.structs.replace(
        config,
        session=cluster.directory.name,
        run_dir=str(cluster.directory.parent),
        node=f"node-{node}",
    )
