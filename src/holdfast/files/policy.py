"""How files are cached, as a program asks for it: checked once, and passed on with every order."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from .. import _core
from ..config import TIERS, Config
from ..errors import BadInput

OnFailure = Literal["abort", "redirect", "recache"]
Validate = Literal["never", "open"]

_ON_FAILURE = {
    "abort": _core.OnFailure.ABORT,
    "redirect": _core.OnFailure.REDIRECT,
    "recache": _core.OnFailure.RECACHE,
}
_VALIDATE = {"never": False, "open": True}


class FilePolicy:
    """How many copies a file has, what happens when an owner fails, and when originals are checked.

    Immutable. Refuses what there is not, before anything is asked of an agent.
    """

    def __init__(
        self, copies: int = 1, on_failure: OnFailure = "recache", validate: Validate = "never"
    ) -> None:
        _check("on_failure", on_failure, _ON_FAILURE)
        _check("validate", validate, _VALIDATE)
        if not 1 <= copies <= _core.MOST_ASKED:
            raise BadInput(f"a file can have 1 to {_core.MOST_ASKED} copies, not {copies}")
        self.copies = copies
        self.on_failure = _ON_FAILURE[on_failure]
        self.validate = _VALIDATE[validate]

    def order(self, config: Config, root: bytes, path: bytes) -> _core.FileOrder:
        """Return what is asked of agents for a file below a root."""
        return _core.FileOrder(
            root,
            path,
            tier=TIERS[config.file_tier],
            copies=self.copies,
            on_failure=self.on_failure,
            validate=self.validate,
            largest=config.file_largest or 0,  # 0: a quarter of the owner's tier
            settled_ns=int(config.file_settled * 1e9),
        )

    def template(self, config: Config) -> str:
        """Return all of an order but root and path, for programs that put these in themselves."""
        return self.order(config, b"", b"").template.hex()


def _check(name: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        *some, last = known
        raise BadInput(f"{name}={value!r}: use {', '.join(some)} or {last}")
