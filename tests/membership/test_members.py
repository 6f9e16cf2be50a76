"""Clusters of simulated members: everybody learns of every death, and of nobody's who lives."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from holdfast.membership.view import Entry, Member, State
from holdfast.simulation.members import Members
from holdfast.simulation.network import Network


class Cluster(Members):
    """Members that note who was declared dead, by whom and when."""

    def __init__(self, count: int, seed: int = 1, **settings: float) -> None:
        self.deaths: list[tuple[float, Member, Member]] = []
        super().__init__(Network(seed, **settings), count, self._note)  # type: ignore[arg-type]

    def _note(self, member: Member, entry: Entry) -> None:
        if entry.state is State.DEAD:
            self.deaths.append((self.network.now, member, entry.member))

    def run(self, periods: float) -> None:
        self.network.run(self.network.now + periods)

    def live_in_all(self) -> set[str]:
        """The nodes that live in everybody's view, which must be the same for all."""
        views = [member.swim.view for member in self.running.values()]
        assert len({view.identity for view in views}) == 1, "views differ"
        numbers = {member.number for member in views[0].live()}
        assert numbers == {member.member.number for member in self.running.values()}
        return {member.node for member in views[0].live()}


def test_deaths_are_learnt_by_all() -> None:
    cluster = Cluster(60, loss=0.01)
    cluster.run(5)
    victims = cluster.nodes[::10]
    for node in victims:
        cluster.kill(node)
    cluster.run(30)
    assert cluster.live_in_all() == set(cluster.nodes) - set(victims)
    assert {dead.node for _, _, dead in cluster.deaths} == set(victims)


def test_most_may_die_at_once() -> None:
    cluster = Cluster(40, loss=0.01)
    for node in cluster.nodes[:36]:
        cluster.kill(node)
    cluster.run(60)
    assert cluster.live_in_all() == set(cluster.nodes[36:])


def test_who_leaves_need_not_be_detected() -> None:
    cluster = Cluster(40)
    cluster.run(20)
    gone = cluster.leave(cluster.nodes[7])
    started = cluster.network.now
    cluster.run(5)
    assert len(cluster.deaths) == 1 + 39
    assert {dead for _, _, dead in cluster.deaths} == {gone}
    assert cluster.deaths[-1][0] - started < 5
    assert gone.node not in cluster.live_in_all()


def test_nobody_who_lives_is_declared_dead_though_messages_are_lost() -> None:
    for seed in range(3):
        cluster = Cluster(80, seed, loss=0.05, duplication=0.05)
        cluster.run(300)
        assert cluster.deaths == []
        assert cluster.live_in_all() == set(cluster.nodes)


def test_a_short_pause_is_refuted() -> None:
    cluster = Cluster(40, loss=0.01)
    cluster.run(5)
    cluster.pause(cluster.nodes[:3])
    cluster.run(4)
    cluster.resume(cluster.nodes[:3])
    cluster.run(30)
    assert cluster.deaths == []
    assert cluster.live_in_all() == set(cluster.nodes)
    incarnations = {
        entry.incarnation for m in cluster.running.values() for entry in m.swim.view.changes()
    }
    assert max(incarnations) >= 1, "nobody was suspected: the pause was too short to test anything"


def test_who_was_paused_for_long_comes_back_and_buries_nobody() -> None:
    cluster = Cluster(40, loss=0.01)
    cluster.run(5)
    sleepers = cluster.nodes[:3]
    cluster.pause(sleepers)
    cluster.run(60)
    assert {dead.node for _, _, dead in cluster.deaths} == set(sleepers)
    awake = len(cluster.deaths)
    cluster.resume(sleepers)
    cluster.run(40)
    assert cluster.live_in_all() == set(cluster.nodes)
    assert {dead.node for _, _, dead in cluster.deaths[awake:]} <= set(sleepers)


@pytest.mark.parametrize("seed", range(3))
def test_a_restart_is_a_new_member(seed: int) -> None:
    cluster = Cluster(30, seed, loss=0.01)
    cluster.run(5)
    node = cluster.nodes[4]
    old = cluster.kill(node)
    cluster.run(Random(seed).choice([0, 3, 30]))
    new = cluster.restart(node)
    assert old.number != new.number
    cluster.run(30)
    assert cluster.live_in_all() == set(cluster.nodes)
    for member in cluster.running.values():
        assert member.swim.view.node(node) == new
        assert [m.number for m in member.swim.view.lost()] == [old.number]


def test_a_partition_heals() -> None:
    for seed, parted in enumerate([5, 40, 120]):
        cluster = Cluster(30, seed, loss=0.01)
        cluster.run(5)
        left, right = cluster.nodes[:14], cluster.nodes[14:]
        cluster.network.part(cluster.addresses(left), cluster.addresses(right))
        cluster.run(parted)
        if parted > 30:
            assert {d.node for _, m, d in cluster.deaths if m.node in left} == set(right)
            assert {d.node for _, m, d in cluster.deaths if m.node in right} == set(left)
        cluster.network.heal()
        cluster.run(60)
        assert cluster.live_in_all() == set(cluster.nodes)


def test_two_halves_that_meet_again_do_not_bury_each_other() -> None:
    cluster = Cluster(40)
    left, right = cluster.nodes[:20], cluster.nodes[20:]
    cluster.network.part(cluster.addresses(left), cluster.addresses(right))
    cluster.run(60)
    cluster.network.heal()
    fewest = 40
    for _ in range(80):
        cluster.run(0.5)
        fewest = min(fewest, *(m.swim.view.size for m in cluster.running.values()))
    assert cluster.live_in_all() == set(cluster.nodes)
    assert fewest >= 18  # of the own half, hardly anybody was lost on the way


@pytest.mark.parametrize("deaf", [True, False])
def test_a_member_cut_off_one_way_comes_back_when_the_cut_heals(deaf: bool) -> None:
    cluster = Cluster(30, loss=0.01)
    cluster.run(20)
    one, others = cluster.addresses(cluster.nodes[:1]), cluster.addresses(cluster.nodes[1:])
    cluster.network.cut(*((others, one) if deaf else (one, others)))
    cluster.run(150)
    cluster.network.heal()
    cluster.run(60)
    assert cluster.live_in_all() == set(cluster.nodes)


def test_what_gossip_lost_in_a_cut_is_made_up_for() -> None:
    cluster = Cluster(20)
    cluster.run(20)
    one = cluster.addresses(cluster.nodes[:1])
    for node in cluster.nodes[10:]:
        cluster.kill(node)
    cluster.network.part(one, cluster.addresses(cluster.nodes[1:]))
    news = [cluster.restart(node) for node in cluster.nodes[10:]]
    cluster.network.part(one, [member.address for member in news])
    cluster.run(60)
    assert not any(m.swim.news for m in cluster.running.values() if m.member.address not in one)
    cluster.network.heal()
    cluster.run(60)
    assert cluster.live_in_all() == set(cluster.nodes)


def test_who_joins_behind_a_cut_is_found() -> None:
    cluster = Cluster(6)
    cluster.run(5)
    node = cluster.nodes[0]
    others = cluster.addresses(cluster.nodes[1:])
    cluster.kill(node)
    new = cluster.restart(node)
    cluster.network.part([new.address], others)
    cluster.run(60)
    assert cluster.running[node].swim.view.size == 1
    assert all(m.swim.view.node(node) is None for n, m in cluster.running.items() if n != node)
    cluster.network.heal()
    cluster.run(60)
    assert cluster.live_in_all() == set(cluster.nodes)


def test_a_cut_between_two_does_not_matter_where_others_reach_both() -> None:
    cluster = Cluster(20)
    one, other = cluster.addresses(cluster.nodes[:2])
    cluster.network.part([one], [other])
    cluster.run(200)
    assert cluster.deaths == []


def test_messages_per_member_and_period_do_not_grow() -> None:
    def messages(count: int) -> tuple[float, float]:
        cluster = Cluster(count, loss=0.01)
        cluster.run(25)
        before = cluster.network.sent
        cluster.run(10)
        quiet = cluster.network.sent - before
        cluster.kill(cluster.nodes[3])
        cluster.run(10)
        return quiet / count / 10, (cluster.network.sent - before - quiet) / count / 10

    few, many = messages(50), messages(2_000)
    assert many[0] == pytest.approx(few[0], rel=0.1)
    assert many[1] <= 5  # a probe, two gossips, an answer, and seldom more
    assert few[1] <= 5


@pytest.mark.parametrize("seed", range(20))
def test_after_any_course_of_faults_all_agree(seed: int) -> None:
    rng = Random(seed)
    cluster = Cluster(rng.choice([3, 5, 12, 25]), seed, loss=rng.choice([0, 0.01, 0.1]))
    cluster.network.duplication = rng.choice([0, 0.1])
    cluster.network.delay = rng.choice([(0.001, 0.01), (0.05, 0.4)])
    paused: set[str] = set()
    done: Counter[str] = Counter()
    for _ in range(rng.randrange(5, 25)):
        cluster.run(rng.random() * rng.choice([1, 10, 40]))
        node = rng.choice(cluster.nodes)
        running = sorted(cluster.running)
        fault = rng.choice(["kill", "leave", "restart", "pause", "resume", "cut", "part", "heal"])
        done[fault] += 1
        if fault == "kill" and node in running and len(running) > 2:
            cluster.kill(node)
            paused.discard(node)
        elif fault == "leave" and node in running and node not in paused and len(running) > 2:
            cluster.leave(node)
        elif fault == "restart" and node not in running and set(running) - paused:
            cluster.restart(node)
        elif fault == "pause" and node in running:
            cluster.pause([node])
            paused.add(node)
        elif fault == "resume":
            cluster.resume(sorted(paused))
            paused.clear()
        elif fault in {"cut", "part"}:
            side = rng.sample(cluster.nodes, rng.randrange(1, len(cluster.nodes)))
            rest = [name for name in cluster.nodes if name not in side]
            action = cluster.network.cut if fault == "cut" else cluster.network.part
            action(cluster.addresses(side), cluster.addresses(rest))
        elif fault == "heal":
            cluster.network.heal()
    cluster.resume(sorted(paused))
    cluster.network.heal()
    cluster.network.loss = 0.01
    cluster.network.delay = (0.001, 0.01)
    cluster.run(150)
    assert cluster.live_in_all() == set(cluster.running), (seed, done)


def test_one_seed_is_one_course() -> None:
    def course(seed: int) -> object:
        cluster = Cluster(30, seed, loss=0.05)
        cluster.run(5)
        cluster.kill(cluster.nodes[3])
        cluster.run(20)
        return cluster.network.sent, cluster.deaths

    assert course(5) == course(5)
    assert course(5) != course(6)
