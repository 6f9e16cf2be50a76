"""Starting the agents of a session: all or none."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from .._core import AgentClient
from ..client import contacts
from ..config import Config
from ..errors import BadInput, HoldfastError, Refused
from ..membership.view import Entry, Member, State, View, assign_roles, gives_way_to
from ..session import session as sessions
from ..session.node import Orders, Ready
from ..session.session import Home, Session
from .launchers import Launcher
from .starter import Started, StartOutcome

#: A few agents lead to all others.
_SEEDS = 8
_JOIN_WITHIN = 10.0
#: What an agent refuses because of what the user wrote stays that, wherever the agent is.
_KINDS = {kind.__name__: kind for kind in (BadInput, Refused)}


class AgentRecipe(msgspec.Struct, frozen=True):
    """What the agents of a session have in common."""

    session: Session
    key: bytes
    config: Config
    directory: Path
    lifeline: bool = False  # they end with this process

    def orders(self, here: bool, agents: int) -> Orders:
        """Return what all agents are told; a launcher adds the rest."""
        return Orders(
            session=replace(self.session, home=None),
            job_key=self.key.hex(),
            config=self.config,
            directory=str(self.directory) if here else "",
            agents=agents if here else 1,
            here=here,
            lifeline=self.lifeline,
        )


def new_recipe(
    directory: Path, config: Config, key: bytes, launcher: str, lifeline: bool = False
) -> AgentRecipe:
    """Return how to make the agents of a new session."""
    session = Session(
        name=directory.name,
        created=time.time(),
        virtual_nodes=config.virtual_nodes,
        tree_largest=config.tree_largest,
        tree_ttl=config.tree_ttl,
        launcher=launcher,
    )
    return AgentRecipe(session, key, config, directory, lifeline)


def start(recipe: AgentRecipe, launcher: Launcher) -> tuple[list[Member], Started]:
    """Start all agents of a session and introduce them to one another; all or none."""
    nodes = launcher.nodes(())
    roles = assign_roles(nodes, recipe.config.staging, recipe.config.spares)
    recipe = replace(recipe, session=replace(recipe.session, roles=roles))
    home = Home(recipe.config, nodes)
    sessions.make(recipe.directory, replace(recipe.session, home=home), recipe.key)
    orders = recipe.orders(launcher.here, len(nodes))
    started = launcher.start(orders, nodes, recipe.directory / "launch.log")
    outcome = StartOutcome()
    try:
        outcome = started.collect(recipe.config.start_within)
        if outcome.failed:
            raise failure(outcome.failed)
        members = [outcome.ready[node] for node in nodes]
        contacts.join(AgentClient(recipe.key), members, as_view(members), _JOIN_WITHIN)
    except BaseException:
        _end(recipe, outcome)
        started.abandon()
        raise
    processes = started.keep()
    home = replace(home, seeds=() if launcher.here else seeds(members), processes=processes)
    sessions.write(recipe.directory, replace(recipe.session, home=home))
    return members, started


def add(recipe: AgentRecipe, launcher: Launcher, nodes: Sequence[str], view: View) -> StartOutcome:
    """Start the agents of more nodes in a session with that view, as far as they start."""
    session = sessions.read(recipe.directory)
    assert session.home is not None
    every = tuple(dict.fromkeys([*session.home.nodes, *nodes]))
    orders = recipe.orders(launcher.here, len(every))
    log = recipe.directory / "launch.log"
    # One at a time for the launcher: a node that is still dead must not fail the others.
    started = [
        launcher.start(replace(orders, after=_last_start(view, node)), [node], log)
        for node in nodes
    ]
    outcome = StartOutcome()
    processes = session.home.processes
    for one in started:
        said = one.collect(recipe.config.start_within)
        if said.failed:
            one.abandon()
        else:
            processes += one.keep()
        outcome.ready.update(said.ready)
        outcome.failed.update(said.failed)
    newcomers = list(outcome.ready.values())
    client = AgentClient(recipe.key)
    view.merge(as_view(newcomers).entries())
    view.merge(contacts.join(client, newcomers, view, _JOIN_WITHIN).entries())
    view.merge(contacts.tell(client, view.live(), as_view(newcomers)).entries())
    for member in newcomers:
        if later := view.later(member):
            del outcome.ready[member.node]
            words = f"{gives_way_to(later)}; run the command again"
            outcome.failed[member.node] = Ready(member.node, error=words)
            contacts.tell(client, [member], view)  # it ends
    home = replace(
        session.home,
        nodes=every,
        seeds=() if launcher.here else seeds(view.live()),
        processes=tuple(one for one in processes if one.running),
    )
    sessions.write(recipe.directory, replace(session, home=home))
    return outcome


def as_view(members: Sequence[Member]) -> View:
    """Return the view of members that have just started."""
    return View(Entry(member, 0, State.ALIVE) for member in members)


def _last_start(view: View, node: str) -> int:
    last = view.latest(node)
    return last.started if last else 0


def seeds(members: Sequence[Member]) -> tuple[str, ...]:
    """Return the addresses of a few members, far from one another."""
    return tuple(member.address for member in members[:: -(-len(members) // _SEEDS)])


def failure(failed: Mapping[str, Ready]) -> HoldfastError:
    """Return the error that names the nodes without an agent, and what one of them said."""
    first, *others = sorted(failed)
    ready = failed[first]
    who = f"the agent of {first} did not start"
    if others:
        who = f"the agents of {len(failed)} nodes did not start ({', '.join(sorted(failed))})"
    kind = _KINDS.get(ready.kind, HoldfastError)
    return kind(f"{who}: {ready.error}" if not others else f"{who}; {first}: {ready.error}")


def _end(recipe: AgentRecipe, outcome: StartOutcome) -> None:
    """Tell those to end who are ready: their launcher may not reach them any more."""
    directory = contacts.Contacts(recipe.directory, recipe.config.deadline)
    directory.stop(list(outcome.ready.values()), within=recipe.config.deadline)
