"""Reading a whole data set, as a training job does."""

from __future__ import annotations

import holdfast
from holdfast.client.contacts import Contacts
from holdfast.client.survey import NodeStatus, survey
from holdfast.files import Files

#: Deaths are noticed in a second, and files need not be old to be kept.
SETTINGS = {
    "probe_period": "0.1 s",
    "file_settled": "0 s",
    "file_strikes": "2",
    "file_tier": "memory",
    "memory": "256 MiB",
    "disk": "256 MiB",
}


def epoch(files: Files, data: dict[str, bytes]) -> None:
    """Read every file and compare."""
    for name, content in data.items():
        assert files.read(name) == content, name


def nodes_of(cluster: holdfast.LocalCluster) -> dict[str, NodeStatus]:
    """The nodes that answer, by name."""
    contacts = Contacts(cluster.directory, 5.0)
    try:
        return {node.node: node for node in survey(contacts).nodes if node.tiers}
    finally:
        contacts.client.close()


def copies_in(cluster: holdfast.LocalCluster) -> int:
    """Copies of files on all nodes that answer, where nothing else is stored."""
    return sum(node.tiers["memory"]["objects"] for node in nodes_of(cluster).values())
