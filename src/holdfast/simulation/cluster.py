"""A whole simulated cluster: agents, clients, the wire between them, and checkers that watch."""

from __future__ import annotations

from collections.abc import Callable, Generator
from hashlib import blake2b
from typing import Any

from ..errors import HoldfastError
from ..membership.events import LeaveEvent
from ..membership.key_spaces import KeySpace
from ..membership.view import COMPUTE, Entry, Member, State, View, assign_roles
from .agents import Agent, AgentSettings
from .checkers import Checkers
from .clients import Client, ClientSettings
from .expected import Expected
from .file_owner import Originals, content_of, copy_key
from .history import Call, Record, series
from .network import NodeNetwork
from .scenario import Scenario


class Cluster:
    """Nodes n0, n1, ... and clients on them; `agents` are those that run, by node."""

    def __init__(
        self,
        scenario: Scenario,
        agent: type[Agent] = Agent,
        key_spaces: tuple[KeySpace, ...] = (),
    ) -> None:
        self.scenario = scenario
        self.key_spaces = key_spaces
        self.wire = NodeNetwork(scenario.seed, scenario.delay, scenario.loss, scenario.duplication)
        self.rng = self.wire.rng
        self.agents: dict[str, Agent] = {}
        self.nodes = [f"n{i}" for i in range(scenario.nodes)]
        self._roles = assign_roles(self.nodes, scenario.staging, scenario.spares)
        self.paused: set[str] = set()
        self.stuck: set[str] = set()  # whose Python loop stands still
        self.cuts = 0
        self.checkers = Checkers(scenario, lambda: self.wire.now, key_spaces)
        self.calls: list[Call] = []
        self.originals = Originals()
        # By file: the versions that were to be seen from then on, and who was to come back first.
        self._refreshed: dict[bytes, list[tuple[int, dict[int, int]]]] = {}
        self._agent_class = agent
        self._trace = blake2b(digest_size=8)
        self._agent_settings = AgentSettings(
            virtual_nodes=scenario.virtual_nodes,
            deadline=scenario.deadline,
            restore_rate=scenario.restore_rate,
            key_spaces=key_spaces,
            originals=self.originals,
        )
        members = [self._member(node) for node in self.nodes]
        for member in members:
            self._start(member, View(Entry(other, 0, State.ALIVE) for other in members))
        self._client_settings = ClientSettings(
            virtual_nodes=scenario.virtual_nodes,
            deadline=scenario.deadline,
            put_retry_for=scenario.put_retry_for,
            key_spaces=key_spaces,
            originals=self.originals,
        )
        self.faults()
        self.clients: list[Client] = []
        for i in range(scenario.clients):
            self.clients.append(self.connect(f"client{i}", self.rng.choice(self.nodes)))

    # ---- what happens to nodes -----------------------------------------------------------------

    def kill(self, node: str) -> None:
        """End an agent without a word."""
        agent = self.agents.pop(node)
        self.paused.discard(node)
        self.stuck.discard(node)
        self.note("killed", node)
        self.wire.kill(agent.member.address)
        self.checkers.killed(agent.member.number)
        self._views()
        self.faults()

    def leave(self, node: str) -> None:
        """Let an agent say farewell and end."""
        self.agents[node].step(LeaveEvent())
        self.kill(node)

    def restart(self, node: str) -> bool:
        """Start a new member that a few others tell what they know; says whether anybody could."""
        seeds = [
            agent
            for name, agent in self.agents.items()
            if name not in self.paused | self.stuck and self.wire.reaches(node, name)
        ]
        if not seeds:
            return False
        view = View()
        for seed in self.rng.sample(seeds, min(3, len(seeds))):
            view.merge(seed.swim.view.entries())
        self.note("started", node)
        self._start(self._member(node), view)
        return True

    def pause(self, node: str) -> None:
        """Stop an agent."""
        self.paused.add(node)
        self.note("paused", node)
        self.wire.pause(self.agents[node].member.address)
        self.faults()

    def resume(self, node: str) -> None:
        """Let an agent go on."""
        if node in self.paused:
            self.paused.remove(node)
            self.note("resumed", node)
            self.wire.resume(self.agents[node].member.address)
            self.faults()

    def stick(self, node: str) -> None:
        """Let the Python loop of an agent stand still."""
        self.stuck.add(node)
        self.note("stuck", node)
        self.agents[node].stick()
        self.faults()

    def unstick(self, node: str) -> None:
        """Let the Python loop of an agent go on."""
        if node in self.stuck:
            self.stuck.remove(node)
            self.note("goes on", node)
            self.agents[node].go_on()
            self.faults()

    def cut(self, sources: list[str], targets: list[str], both_ways: bool) -> None:
        """Lose what is sent from some nodes to others."""
        self.note("cut", f"{sources} -> {targets}{' and back' if both_ways else ''}")
        self.wire.cut(sources, targets)
        if both_ways:
            self.wire.cut(targets, sources)
        self.cuts += 1
        self.faults()

    def heal(self) -> None:
        """Mend all cuts."""
        self.note("healed", "")
        self.wire.heal()
        self.cuts = 0
        self.faults()

    def rot(self, node: str) -> None:
        """Let a copy on a node go bad."""
        store = self.agents[node].store
        if store.objects:
            store.rot(self.rng.choice(sorted(store.objects)))
            self.faults()

    def faults(self) -> None:
        """Tell the checkers whether a fault is in force."""
        lossy = self.wire.loss > 0 or self.scenario.slow
        self.checkers.faults(bool(self.cuts or self.paused or self.stuck or lossy))

    # ---- what clients do -----------------------------------------------------------------------

    def connect(self, name: str, node: str) -> Client:
        """Start a client on a node; it knows what the agent there knows."""
        entries = self.agents[node].swim.view.entries()

        def local() -> Member | None:
            agent = self.agents.get(node)
            return agent.member if agent else None

        client = self._agent_class.client_class
        return client(self.wire, name, node, entries, self._client_settings, local)

    def put(
        self,
        client: Client,
        record: Record,
        content: bytes,
        then: Callable[[Call], None],
        copies: int = 0,
    ) -> None:
        """Let a client put an object, with as many copies as were wanted before or so many."""
        call = self._call(client, "put", record, content)
        call.copies = copies or record.first_copies
        call.or_fewer = record.or_fewer and not copies
        putting = client.put(record.key, content, record.size, call.copies, call.or_fewer)
        self._do(client, putting, call, then)

    def file(self, name: bytes, copies: int, size: int) -> Record:
        """Tell the checkers of the version that a file has now."""
        version = self.originals.version(name)
        record = Record(key=copy_key(name, version), copies=copies, size=size, has_source=True)
        record.began[content_of(name, version)] = self.wire.now
        return record

    def change(self, file: Record) -> Record:
        """Let a file change on the shared file system, behind everybody's back."""
        name = file.name
        self.note("changed", f"{name.decode()} to {self.originals.change(name)}")
        new = self.file(name, file.first_copies, file.size)
        self.checkers.changed(file.key, new)
        return new

    def read(self, client: Client, file: Record, then: Callable[[Call], None]) -> None:
        """Let a client read a file."""
        call = self._call(client, "read", file)
        call.refreshed = max(
            (
                version
                for version, away in self._refreshed.get(file.name, ())
                if self._have_returned(away)
            ),
            default=0,
        )
        self._do(client, client.read(file.name, file.size, file.first_copies), call, then)

    def refresh(self, client: Client, file: Record, then: Callable[[Call], None]) -> None:
        """Let a client make all nodes look at a file again."""
        name, version = file.name, self.originals.version(file.name)

        def refreshing() -> Generator[Any, Any, None]:
            reached = yield from client.refresh(name)
            if (away := self._not_reached(client, reached)) is not None:
                self._refreshed.setdefault(name, []).append((version, away))
                self.note("refreshed", f"{name.decode()} to {version}")

        self._do(client, refreshing(), self._call(client, "refresh", file), then)

    def _not_reached(self, client: Client, reached: set[int]) -> dict[int, int] | None:
        """Return whom a refresh did not reach, and the incarnation in which it counts as dead.

        None if others were not reached either: they may believe for long what they knew.
        """
        known = {entry.member.number: entry for entry in client.routing.entries()}
        away = {}
        for agent in self.agents.values():
            number = agent.member.number
            if number in reached:
                continue
            entry = known.get(number)
            if entry is None or entry.state is not State.DEAD:
                return None
            if agent.node.incarnation > entry.incarnation:
                return None  # it is back, and the client does not know
            away[number] = entry.incarnation
        return away

    def _have_returned(self, away: dict[int, int]) -> bool:
        """Whether all of them that still run have learnt that they were taken for dead."""
        return all(
            agent.node.incarnation > away.get(agent.member.number, -1)
            for agent in self.agents.values()
        )

    def get(self, client: Client, record: Record, then: Callable[[Call], None]) -> None:
        """Let a client get an object."""
        call = self._call(client, "get", record)
        self._do(client, client.get(record.key), call, then)

    def drop(self, client: Client, record: Record, then: Callable[[Call], None]) -> None:
        """Let a client drop an object."""
        call = self._call(client, "drop", record)
        self._do(client, client.drop(record.key), call, then)

    def drop_up_to(self, client: Client, record: Record, then: Callable[[Call], None]) -> None:
        """Let a client drop a version and all below it."""
        call = self._call(client, "drop up to", record)
        prefix, version = series(record.key)
        self._do(client, client.drop_below(prefix, version + 1), call, then)

    def _call(self, client: Client, kind: Any, record: Record, content: bytes = b"") -> Call:
        view = client.routing.owners.identity
        now = self.wire.now
        return Call(
            client=client.name,
            kind=kind,
            key=record.key,
            began=now,
            node=client.node,
            view=view,
            content=content,
        )

    def _do(self, client: Client, doing: Any, call: Call, then: Callable[[Call], None]) -> None:
        self.calls.append(call)
        self.checkers.began(call)

        def ended(result: Any, error: HoldfastError | None) -> None:
            call.ended = self.wire.now
            call.error = error
            if call.or_fewer:
                call.nodes = self.expected().most(call.key)
            if call.kind == "drop up to":
                call.live = frozenset(member.number for member in client.routing.live)
            if call.kind in ("get", "read") and result:
                call.result = result[0] if call.kind == "get" else result
            self.note("called", str(call))
            self.checkers.ended(call)
            then(call)

        client.do(doing, ended)

    # ---- inside --------------------------------------------------------------------------------

    def note(self, what: str, detail: str) -> None:
        """Add to the trace, of which one hash is left in the end."""
        line = f"{self.wire.now:.6f} {what} {detail}"
        if self.scenario.verbose:
            print(line)
        self._trace.update(line.encode())

    def trace(self) -> str:
        """Return the hash of all that happened."""
        return self._trace.hexdigest()

    def expected(self) -> Expected:
        """Return who must own what, once all know who runs now."""
        members = [agent.member for agent in self.agents.values()]
        return Expected(members, self.scenario.virtual_nodes, self.key_spaces)

    def _member(self, node: str) -> Member:
        number = self.rng.getrandbits(63)
        address = f"{node}/agent" if self.scenario.same_address else f"{node}/{number:x}"
        return Member(
            node=node,
            number=number,
            started=int(self.wire.now * 1e9),
            address=address,
            socket=address,
            pid=1,
            role=self._roles.get(node, COMPUTE),
        )

    def _start(self, member: Member, view: View) -> None:
        self.checkers.started(member.number, member.node)
        self.agents[member.node] = self._agent_class(
            self.wire,
            member,
            view,
            self._agent_settings,
            self.scenario.capacity,
            self._watch,
        )
        self._views()

    def _watch(self, agent: Agent, what: str, key: bytes) -> None:
        member = agent.member
        if what == "viewed":
            self.note(what, f"{member.node} {agent.swim.view.identity:x}")
            assert agent.owners is not None
            self.checkers.viewed(member.number, agent.owners)
            if self.agents.get(member.node) is agent:
                self._views()
            return
        self.note(what, f"{member.node} {key.decode()}")
        if what == "stored":
            self.checkers.stored(member.number, key, agent.store.objects[key].whole)
        elif what == "pulls":
            self.checkers.pulls(member.number, key)
        elif what == "pulled":
            self.checkers.pulled(member.number, key)
        elif what == "learnt":
            self.checkers.learnt(member.number, key)
        elif what == "raised":
            pass  # how many copies there are is what counts
        else:
            self.checkers.removed(member.number, key, what)

    def _views(self) -> None:
        self.checkers.views({agent.swim.view.identity for agent in self.agents.values()})
