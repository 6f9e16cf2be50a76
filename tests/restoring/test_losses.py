"""Deaths that came before the copies of others were back, as one member sees them."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.membership.view import SPARE, Member
from holdfast.restoration.losses import Losses


def member(number: int, node: str = "", role: str = "compute") -> Member:
    return Member(
        node=node or f"n{number}",
        number=number,
        started=number,
        address="",
        socket="",
        pid=1,
        role=role,
    )


ALL = [member(number) for number in range(5)]


def left(*gone: int) -> list[Member]:
    return [one for one in ALL if one.number not in gone]


def settle(losses: Losses) -> None:
    for _ in range(2):
        losses.tick(restored=True)


def view(
    losses: Losses, live: Sequence[Member], lost: Sequence[Member], *standing_in: Member
) -> None:
    """Show it a view in which of the spares only some stand in."""
    owning = [one for one in live if one.role != SPARE or one in standing_in]
    losses.viewed({one.number: one for one in owning}, live, lost)


def started() -> Losses:
    losses = Losses(0)
    view(losses, ALL[:1], [])
    view(losses, ALL, [])
    settle(losses)
    return losses


def test_one_death_after_the_other_was_made_good_is_no_loss() -> None:
    losses = started()
    view(losses, left(1), [ALL[1]])
    losses.tick(restored=False)
    settle(losses)
    view(losses, left(1, 2), ALL[1:3])
    assert losses.died_together() == ()


def test_a_death_before_another_was_made_good_is_told_for_ever() -> None:
    losses = started()
    view(losses, left(1), [ALL[1]])
    losses.tick(restored=True)  # others may still tell us what we lack
    view(losses, left(1, 2), ALL[1:3])
    assert losses.died_together() == (("n1", "n2"),)
    settle(losses)
    view(losses, left(1, 2, 3), ALL[1:4])
    assert losses.died_together() == (("n1", "n2"),)


def test_who_is_back_has_lost_nothing() -> None:
    losses = started()
    view(losses, left(1, 2), ALL[1:3])
    settle(losses)
    view(losses, left(2), [ALL[2]])
    assert losses.died_together() == ()


def test_a_new_life_that_has_nothing_yet_counts_for_the_old_one() -> None:
    old = member(9, "n0")
    losses = Losses(0)
    view(losses, ALL[:1], [])
    view(losses, ALL, [old])
    view(losses, left(1), [old, ALL[1]])
    assert losses.died_together() == (("n0", "n1"),)


def test_two_lives_of_one_node_and_spares_hold_no_second_copy() -> None:
    losses = started()
    again, spare = member(9, "n1"), member(8, role=SPARE)
    view(losses, [*left(1), again, spare], [ALL[1]])
    view(losses, left(1), [ALL[1], again, spare])
    assert losses.died_together() == ()


def test_a_spare_that_owned_something_may_have_held_the_other_copy() -> None:
    losses = started()
    spare = member(8, role=SPARE)
    view(losses, [*left(1), spare], [ALL[1]], spare)
    settle(losses)
    view(losses, left(1, 2), [*ALL[1:3], spare])
    assert losses.died_together() == (("n2", "n8"),)


def test_who_owns_nothing_any_more_holds_copies_until_they_are_restored() -> None:
    losses = started()
    spare = member(8, role=SPARE)
    view(losses, [*left(1), spare], [ALL[1]], spare)
    settle(losses)
    view(losses, [*ALL, spare], [])
    view(losses, left(2), [ALL[2], spare])
    assert losses.died_together() == (("n2", "n8"),)
    view(losses, [*left(2), spare], [ALL[2]])  # it was not dead at all
    assert losses.died_together() == ()
    settle(losses)
    view(losses, left(2, 3), [*ALL[2:4], spare])
    assert losses.died_together() == ()
