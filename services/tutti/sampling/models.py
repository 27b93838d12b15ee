"""The model of a request, in the resident process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tutti.chassis import progress
from tutti.chassis.tasks import WorkFailed
from tutti.checkpoints.bodies import Body, decode_body
from tutti.checkpoints.errors import CheckpointError
from tutti.inference.errors import InferenceError
from tutti.inference.models import MODELS, Model, NotLoaded, Wanted
from tutti.records.errors import CorpusError


def body_of(wanted: Wanted) -> Body:
    """Return the manifest of the wanted model. Raises WorkFailed."""
    try:
        return decode_body(wanted.manifest)
    except (CheckpointError, CorpusError) as error:
        raise WorkFailed(str(error)) from error


@contextmanager
def model_of(wanted: Wanted, beside: int = 0) -> Iterator[Model]:
    """Give the wanted model, where there is memory for it and for `beside` bytes.

    Errors of the model, its checkpoint or its texts become WorkFailed, and so does too little memory. Raises NotLoaded.
    """
    try:
        yield MODELS.model(wanted, beside=beside, advanced=lambda done, total: progress.say(done, total, unit="bytes"))
    except NotLoaded:
        raise
    except (InferenceError, CheckpointError, CorpusError) as error:
        raise WorkFailed(str(error)) from error


def counted(most: int) -> Callable[[int], None]:
    """Return a function to call with a number of tokens, which reports how many of at most `most` there are by then."""
    sums = 0

    def advanced(tokens: int) -> None:
        nonlocal sums
        sums += tokens
        progress.say(sums, most, unit="tokens")

    return advanced
