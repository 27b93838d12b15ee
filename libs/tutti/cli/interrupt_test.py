"""An interrupt is not lost, wherever the command stands when it comes."""

import signal
from collections.abc import Iterator

import pytest

from tutti.cli import interrupt
from tutti.cli.runs import recomputed

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)
    interrupt._told.clear()


class Finalized:
    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_a_finalizer_dropped_is_raised_by_the_next_look(number: signal.Signals) -> None:
    interrupt.raised()
    interrupt.check()
    Finalized(number)  # Python prints and drops what __del__ raises
    with pytest.raises(KeyboardInterrupt):
        interrupt.check()


@pytest.mark.parametrize("number", SIGNALS)
def test_both_signals_are_raised_where_the_command_stands(number: signal.Signals) -> None:
    interrupt.raised()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_a_signal_that_was_ignored_before_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupt.raised()
    signal.raise_signal(signal.SIGINT)
    interrupt.check()


def test_an_interrupt_says_how_many_steps_are_computed_again() -> None:
    assert recomputed(212, 200) == "12 steps will be computed again, since the checkpoint of step 200"
    assert recomputed(0, 0) == "the training has made no step yet"
    assert recomputed(7, 0) == "7 steps will be computed again, since there is no checkpoint yet"
    assert recomputed(200, 200) == "nothing is lost: step 200 is in a checkpoint"
