"""The loop of a rank: what it says of steps that changed nothing."""

import pytest

from tutti.corpus.tokens.ledger import SkippedStep
from tutti.model.results import SkipCause
from tutti.trainer.rank.loop import MOST_SKIPPED, REMEDIES, has_diverged, skips_in_words


@pytest.mark.parametrize("cause", SkipCause)
def test_skips_are_named_by_their_most_frequent_cause_and_its_remedy(cause: SkipCause) -> None:
    other = next(each for each in SkipCause if each is not cause)
    skipped = [SkippedStep(at, other if at < 3 else cause) for at in range(10)]
    words = skips_in_words(11, skipped)
    assert "steps 1 to 10" in words
    assert f"{cause} in 7, {other} in 3" in words
    assert words.endswith(REMEDIES[cause])


def test_the_steps_of_a_spike_are_no_divergence() -> None:
    spike = [SkippedStep(at, SkipCause.SPIKE) for at in range(3 * MOST_SKIPPED)]
    others = [SkippedStep(len(spike) + at, SkipCause.NOT_FINITE) for at in range(MOST_SKIPPED)]
    assert not has_diverged(spike)
    assert not has_diverged([*spike, *others[:-1]])
    assert has_diverged([*spike, *others])
