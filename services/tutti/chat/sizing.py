"""The size of a deployment: its context and its streams, and whether the memory holds them. Pure."""

from dataclasses import dataclass, replace

from tutti.chassis.errors import InvalidField
from tutti.chassis.tasks import WorkFailed
from tutti.checkpoints.bodies import Body
from tutti.checkpoints.imported import ImportBody
from tutti.contracts.chat.v1 import DeploymentSpec
from tutti.inference.memory import STREAMS, Use, longest, need_of
from tutti.model.chunks import Layout
from tutti.model.spec import REGISTER
from tutti.records.sizes import size

LEAST_CONTEXT = 256
"""An import whose context was not chosen gets no shorter one than this."""
MOST_STREAMS, STREAMS_AT_ONCE = 1024, 16
MOST_CONTEXT = 1 << 20


@dataclass(frozen=True)
class Answering:
    """A checkpoint that answers: rows that it reads at once, and its context where none was chosen.

    That is `context` tokens, and as few as `least` where the memory does not hold more.
    """

    name: str
    layout: Layout
    rows: int
    context: int
    least: int


@dataclass(frozen=True)
class Size:
    """Tokens of prompt and answer at most, texts that a replica continues at once, bytes of all replicas."""

    context: int
    streams: int
    memory_bytes: int


def asked(spec: DeploymentSpec) -> tuple[int, int]:
    """The context and the streams that were asked for: with others, the replicas are other ones."""
    return spec.context, spec.streams


def check(spec: DeploymentSpec) -> None:
    """Raises InvalidField for a context or a number of streams that no engine has."""
    for name, seen, step, most in (
        ("spec.context", spec.context, REGISTER, MOST_CONTEXT),
        ("spec.streams", spec.streams, STREAMS_AT_ONCE, MOST_STREAMS),
    ):
        if seen % step or seen > most:
            raise InvalidField(name, seen=seen, expected=f"a multiple of {step} up to {most}, or 0 for the default")


def answering(body: Body) -> Answering:
    """Return the facts that the size of a deployment depends on."""
    if isinstance(body, ImportBody):
        return Answering(body.name, body.layout, body.rows, body.length, min(body.length, LEAST_CONTEXT))
    return Answering(body.name, body.layout, body.rows, body.training.length, body.training.length)


def sized(model: Answering, spec: DeploymentSpec, available: int, kept: int = 0) -> Size:
    """Return the size of a deployment where `available` bytes are left.

    Its context is that of `spec`, at most that of the model; or else `kept`, that of a deployment that is started
    again; or else one that fits. Raises WorkFailed, with the need, the memory that there is, and sizes that would fit.
    """
    chosen = spec.context or kept
    context = min(chosen or model.context, model.layout.model.context)
    use, share = Use(spec.streams or STREAMS, context, model.rows, exact=True), available // spec.replicas
    if need_of(model.layout, use).total > share:
        fits = longest(model.layout, use, share)
        if chosen or fits < model.least:
            raise WorkFailed(_refusal(model, spec, use, available, fits))
        use = replace(use, context=fits)
    return Size(use.context, use.streams, need_of(model.layout, use).total * spec.replicas)


def _refusal(model: Answering, spec: DeploymentSpec, use: Use, available: int, fits: int) -> str:
    need, fewer = need_of(model.layout, use), replace(use, streams=STREAMS_AT_ONCE)
    would = [f"--context {fits}"] if fits else []
    if use.streams > STREAMS_AT_ONCE and need_of(model.layout, fewer).total * spec.replicas <= available:
        would.append(f"--streams {STREAMS_AT_ONCE}")
    if spec.replicas > 1 and need.total <= available:
        would.append("fewer --replicas")
    each = f" for each of {spec.replicas} replicas" if spec.replicas > 1 else ""
    return (
        f"{model.name} needs {size(need.total)} of memory{each}: {size(need.parameters)} for its parameters, "
        f"{size(need.kept)} for keys and values of {use.streams} streams of {use.context} tokens, and "
        f"{size(need.reading)} to read prompts; {size(available)} are available: take "
        f"{' or '.join([*would, 'a smaller model'])}, or let it have more (chat.memory_bytes)"
    )
