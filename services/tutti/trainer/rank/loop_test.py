"""The loop of a rank: what it says of steps that changed nothing."""

import pytest

from tutti.checkpoints.example_test import training
from tutti.contracts.scheduler.v1 import Spike
from tutti.corpus.tokens.ledger import SkippedStep
from tutti.model.results import SkipCause
from tutti.trainer.failures import FINAL, Reason
from tutti.trainer.rank.loop import (
    MOST_LEFT_OUT,
    MOST_SKIPPED,
    REMEDIES,
    going_back,
    has_diverged,
    skips_in_words,
)


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


def test_a_training_that_goes_back_again_and_again_has_diverged() -> None:
    spike, spiky = Spike(first=40, last=44, loss=3.0), training(steps=400)
    for _ in range(MOST_LEFT_OUT):
        end = going_back(spiky, spike)
        assert (end.reason, end.spike) == (Reason.SPIKE, spike)
        assert end.reason not in FINAL
        spiky = spiky.without(spike.first, spike.last)
    last = going_back(spiky, spike)
    assert last.reason in FINAL
    assert last.spike is None
    assert all(words in str(last) for words in ("steps 40 to 44", REMEDIES[SkipCause.SPIKE]))
