"""Conversations answered by a model in the resident process: torch is imported there alone.

Answers are numbered over the whole set, prompt after prompt, and draws are keyed by these numbers. They are written as
JSON lines.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tutti.chassis.tasks import WorkFailed
from tutti.checkpoints.bodies import Body
from tutti.checkpoints.imported import ImportBody
from tutti.corpus.conversations.conversations import Answer, to_lines
from tutti.corpus.conversations.conversationset import in_part
from tutti.corpus.conversations.rendered import Renderer, TemplateError
from tutti.corpus.conversations.renderers import own_renderer, renderer_of
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.inference.engines import Kind
from tutti.inference.memory import STREAMS, Use, need_of
from tutti.inference.models import Wanted
from tutti.inference.sampling import Sampling
from tutti.model.spec import whole_registers
from tutti.sampling.models import body_of, counted, model_of

if TYPE_CHECKING:
    from tutti.inference.engine import Engine

LONG = 1024
"""Tokens of a context of which all is room for each text; of a longer one only what the texts need."""


@dataclass(frozen=True)
class Answered:
    """The number of answers written, and the number of their tokens."""

    answers: int
    tokens: int


def answer(
    wanted: Wanted,
    tokenizer: BytePairTokenizer,
    lines: Path,
    part: str,
    sampling: Sampling,
    tokens: int,
    each: int,
    kind: Kind,
    to: Path,
) -> Answered:
    """Write `each` answers of at most `tokens` tokens to every conversation of a part, as JSON lines.

    The answer at the end of a demonstration is left out. Raises NotLoaded, and WorkFailed when a prompt fills the
    model's context, the model knows no conversations, or something is damaged.
    """
    body = body_of(wanted)
    if not isinstance(body, ImportBody) and not body.template:
        raise WorkFailed(
            f"{body.name} was not trained on conversations and has no chat template; take a checkpoint of a "
            "stage `sft`, or one that began with it"
        )
    renderer = _renderer(body, tokenizer)
    prompts = [found.prompt or found.messages for found in in_part(lines.read_bytes(), part)]
    if not prompts:
        raise WorkFailed(f"the part {part!r} has no conversation; expected at least one")
    try:
        opened = [tuple(renderer.open(prompt).tolist()) for prompt in prompts]
    except TemplateError as error:
        raise WorkFailed(f"the prompts cannot be asked of {body.name}: {error}") from error
    length = room_of(max(map(len, opened)) + tokens, body.layout.model.context)
    with model_of(wanted, _beside(kind, body, length)) as model:
        import torch

        from tutti.inference.engine import Request, Weights, generate
        from tutti.inference.limits import Limits

        torch.set_num_threads(body.threads)
        engine = _engine(kind, body, tokenizer, length)
        requests = [Request(index * each + k, tokens) for index, tokens in enumerate(opened) for k in range(each)]
        limits = Limits(tokens, renderer.end, tokenizer.vocabulary, renderer.never, tokenizer.ends)
        try:
            engine.start(Weights(body.model_digest, model.vector))
            found = generate(engine, requests, sampling, limits, advanced=counted(len(requests) * tokens))
        finally:
            engine.stop()
    answers = []
    for one in found:
        said = tuple(token for token in one.tokens if token not in tokenizer.ends)
        answers.append(Answer(prompts[one.number // each], one.number, tokenizer.decode(said), said, str(one.stop)))
    to.write_bytes(to_lines(answers))
    return Answered(len(answers), sum(len(one.tokens) for one in answers))


def _renderer(body: Body, tokenizer: BytePairTokenizer) -> Renderer:
    """The renderer of a checkpoint; an import has the template that came with it. Raises WorkFailed."""
    try:
        return own_renderer(tokenizer) if isinstance(body, ImportBody) else renderer_of(body.template, tokenizer)
    except TemplateError as error:
        raise WorkFailed(f"{body.name}: {error}") from error


def room_of(longest: int, context: int) -> int:
    """Return the room for texts of at most `longest` tokens: the context, or a part of a long one that holds them."""
    return min(context, max(LONG, whole_registers(longest, context)))


def _beside(kind: Kind, body: Body, length: int) -> int:
    """The bytes beside the parameters; vLLM takes its memory itself."""
    if kind is Kind.VLLM:
        return 0
    need = need_of(body.layout, Use(STREAMS, length, body.rows, exact=False))
    return need.total - need.parameters


def _engine(kind: Kind, body: Body, tokenizer: BytePairTokenizer, length: int) -> "Engine":
    from tutti.inference.engine import Mode

    if kind is Kind.VLLM:
        from tutti.inference.vllmengine import VllmEngine

        return VllmEngine(body.layout, tokenizer, mode=Mode.FAST)
    from tutti.inference.slotengine import SlotEngine

    return SlotEngine(body.layout, rows=body.rows, mode=Mode.FAST, slots=STREAMS, length=length)
