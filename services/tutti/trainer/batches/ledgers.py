"""The ledger that a rank continues with: which data the steps before it read, and the later ones will read."""

from dataclasses import replace

from tutti.corpus.tokens.ledger import Ledger
from tutti.corpus.tokens.skips import until, without
from tutti.model.training import Training
from tutti.trainer.failures import RankFailure, Reason


def ledger_of(training: Training, first: Ledger, found: Ledger | None = None, step: int = 0) -> Ledger:
    """The ledger of a training after `step` steps, of which `found` is the ledger; None at the start.

    `first` is that of a job which starts from nothing and leaves nothing out. Raises RankFailure where steps of the
    state read data that the training leaves out.
    """
    if not training.skipped:
        return found or first
    planned = first
    for each in training.skipped:
        planned = without(planned, each.first, each.last)
    if found is None:
        return planned
    if until(planned, step).spans != until(found, step).spans:
        seen = ", ".join(f"{each.first} to {each.last}" for each in training.skipped)
        words = f"the state after step {step} read other data than the training, which leaves out those of steps {seen}"
        raise RankFailure(Reason.STATE_REFUSED, f"{words}; expected a state from before the first of them")
    return replace(found, spans=planned.spans)
