"""A program's way into a session: `connect()`, or `local_cluster()` to have one of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import config as settings
from . import services
from .client.connection import Connection
from .errors import BadInput
from .objects import Objects
from .session import session as sessions
from .testing.local_agents import LocalAgents

if TYPE_CHECKING:
    from typing_extensions import Self

    from .files.files import Files
    from .files.paths import Path as FilePath
    from .files.policy import OnFailure, Validate
    from .space.space import Space


class Job:
    """A connection to the agents of a session, through one of them."""

    def __init__(self, directory: Path, config: settings.Config, node: str = "") -> None:
        self._config = config
        self._connection = Connection(directory, config, node, services.KEY_SPACES)
        self.objects = Objects(self._connection)

    @property
    def node(self) -> str:
        """The node that this job goes through."""
        return self._connection.node

    @property
    def nodes(self) -> list[str]:
        """The nodes of the session."""
        return [member.node for member in self._connection.routing.live]

    def files(
        self,
        root: FilePath,
        copies: int = 1,
        on_failure: OnFailure = "recache",
        validate: Validate = "never",
    ) -> Files:
        """Read the files below a directory of the shared file system from the nodes of the job.

        `copies` of each are kept. When the owner of a file fails, `recache` lets the next node take
        over, `redirect` reads the shared file system each time, `abort` raises. Files that change
        behind Holdfast's back may go unseen until `refresh`; with validate="open" their owner looks
        at each read.
        """
        from .files import FilePolicy, Files  # noqa: PLC0415 - many programs need none of it

        policy = FilePolicy(copies, on_failure, validate)
        return Files(self._connection, self._config, root, policy)

    def space(self, name: str) -> Space:
        """Keep n-dimensional arrays, by name and version, in the memory of the nodes of the job."""
        try:
            from .space.space import Space  # noqa: PLC0415 - many programs need none, nor NumPy
        except ModuleNotFoundError as error:
            if error.name != "numpy":
                raise
            raise BadInput(
                "a space needs numpy, which is not installed; try: pip install 'holdfast[space]'"
            ) from None
        return Space(self._connection, name)

    def close(self) -> None:
        """Close the connections; not needed at the end of a program."""
        self._connection.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Job through {self.node} of {len(self.nodes)} nodes>"


class LocalCluster(LocalAgents):
    """Agents on this machine for the time of a `with` block."""

    def connect(self, node: int = 0) -> Job:
        """Connect through a node, as a process on it would."""
        return Job(self.directory, self.config, self._at(node).orders.node)


def connect(**arguments: Any) -> Job:
    """Connect to a running session; arguments are settings, e.g. `session="local"`."""
    config = settings.load(arguments=arguments).config
    return Job(sessions.directory(config), config)


def local_cluster(nodes: int = 4, **arguments: Any) -> LocalCluster:
    """Start agents on this machine; arguments are settings, e.g. `memory="1 GiB"`.

    ::

        with holdfast.local_cluster(nodes=4) as cluster:
            job = cluster.connect()
            job.objects.put("greeting", b"hello", copies=2)
    """
    return LocalCluster(nodes, **arguments)
