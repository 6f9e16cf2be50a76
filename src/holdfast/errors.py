"""Everything that Holdfast raises, as one small tree.

Grouped by what a handler would do::

    HoldfastError
    ├── BadInput              fix the call: argument, key, setting or file is wrong     (ValueError)
    │   └── KeyExists         the key has other contents: choose another key
    ├── NotFound              no node has it, and no node that may have had it is lost (LookupError)
    │   ├── Dropped           it was dropped, and that is final
    │   └── NotCached         the shared file system has it: read it there
    ├── TryAgain              the same call may succeed later                      (ConnectionError)
    │   ├── Unavailable       nodes that may hold it cannot be reached
    │   ├── NotEnoughNodes    fewer nodes answer than copies were requested
    │   ├── NotYet            a box, or a part of it, has not been put
    │   ├── DeadlineMissed    an agent is too slow, stopped or cut off              (TimeoutError)
    │   ├── Busy              another request is writing the same key right now
    │   ├── StaleView         an agent sees other owners of the key: its view or ours is old
    │   └── RanksFailed       ranks of the MPI program died: `store.recover()`, then go on
    ├── BlocksLost            every copy is gone: read the blocks from their source   (LookupError)
    ├── Full                  a tier has no room left: drop something, raise its capacity  (OSError)
    ├── NoSession             no agents are running here: `holdfast up` starts them
    ├── Refused               the other side does not trust us: job key, user, permissions
    │                                                                           (PermissionError)
    └── Damaged               bytes, a frame or a file are not what they must be         (OSError)

Every message says in a sentence what happened, to what, and what to try.
"""

from __future__ import annotations


class HoldfastError(Exception):
    """The root of the tree; catch it to catch all that Holdfast raises by itself."""

    #: What the `holdfast` command exits with; docs/reference/cli.md has the table.
    exit_code = 1
    #: What the agents remember of the object or file that it is about, as lines; often nothing.
    story: tuple[str, ...] = ()


class BadInput(HoldfastError, ValueError):
    """An argument, key, setting or file is wrong; nothing was changed."""

    exit_code = 2


class KeyExists(BadInput):
    """The key is taken by other bytes; keys are written once."""


class NotFound(HoldfastError, LookupError):
    """No member has the object, and none that might have had it was lost."""

    exit_code = 4


class Dropped(NotFound):
    """The object was dropped; its key is never used again."""


class NotCached(NotFound):
    """No agent serves this file; what it is, or why not, the shared file system tells."""


class TryAgain(HoldfastError, ConnectionError):
    """The same call may succeed later or through another agent."""

    exit_code = 5


class Unavailable(TryAgain):
    """Members that may hold the object cannot be reached."""


class NotEnoughNodes(TryAgain):
    """Fewer nodes answer than copies are wanted."""


class NotYet(TryAgain):
    """A box of a variable, or a part of it, has not been put."""


class DeadlineMissed(TryAgain, TimeoutError):
    """An agent did not answer within its deadline."""


class Busy(TryAgain):
    """Another writer holds the same key at this moment."""


class StaleView(TryAgain):
    """An agent computes other owners for the key than the sender; views must be merged first."""


class RanksFailed(TryAgain):
    """Ranks of an MPI program died; `ranks` are those known so far, in the communicator's order."""

    def __init__(self, message: str, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.ranks = ranks


class BlocksLost(HoldfastError, LookupError):
    """No copy of some blocks is left; `ranges` lists them as (first, count)."""

    def __init__(self, message: str, ranges: list[tuple[int, int]]) -> None:
        super().__init__(message)
        self.ranges = ranges


class Full(HoldfastError, OSError):
    """A tier has no room left for the object."""

    exit_code = 6


class NoSession(HoldfastError):
    """No agents are running where we looked."""

    exit_code = 3


class Refused(HoldfastError, PermissionError):
    """Authentication failed, or files are open to others."""

    exit_code = 7


class Damaged(HoldfastError, OSError):
    """Bytes did not match their checksum, a frame its format, or storage failed."""

    exit_code = 8
