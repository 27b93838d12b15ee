"""The scalars of a state: which steps changed nothing."""

import pytest

from tutti.model.results import Outcome, Scalars


@pytest.mark.parametrize(
    ("outcomes", "in_a_row"), [("", 0), ("s", 1), ("c", 0), ("sc", 0), ("scss", 2), ("cssss", 4), ("sscs", 1)]
)
def test_skipped_steps_in_a_row_are_those_up_to_the_last_step(outcomes: str, in_a_row: int) -> None:
    scalars = Scalars()
    for letter in outcomes:
        scalars = scalars.after(Outcome.SKIPPED if letter == "s" else Outcome.COMMITTED)
    assert scalars.skipped_in_a_row == in_a_row
