"""What the agents of a local cluster have counted, and what they hold."""

from __future__ import annotations

import holdfast
from holdfast.client.contacts import Contacts
from holdfast.client.survey import NodeStatus, survey


def nodes_of(cluster: holdfast.LocalCluster, within: float = 5.0) -> dict[str, NodeStatus]:
    """The nodes that answer, by name."""
    contacts = Contacts(cluster.directory, within)
    try:
        return {node.node: node for node in survey(contacts).nodes if node.tiers}
    finally:
        contacts.client.close()


def counted(cluster: holdfast.LocalCluster, name: str) -> int:
    """A counter, of all nodes that answer together."""
    return sum(node.counters[name] for node in nodes_of(cluster).values())


def copies_in(cluster: holdfast.LocalCluster) -> int:
    """Copies of files on all nodes that answer, where nothing else is stored."""
    return sum(node.tiers["memory"]["objects"] for node in nodes_of(cluster).values())
