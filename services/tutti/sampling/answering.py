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
from tutti.inference.models import Wanted
from tutti.inference.sampling import Sampling
from tutti.sampling.models import counted, model_of

if TYPE_CHECKING:
    from tutti.inference.engine import Engine


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
    with model_of(wanted) as model:
        import torch

        from tutti.inference.engine import Request, Weights, generate
        from tutti.inference.limits import Limits

        body = model.body
        if not isinstance(body, ImportBody) and not body.template:
            raise WorkFailed(
                f"{body.name} was not trained on conversations and has no chat template; take a checkpoint of a "
                "stage `sft`, or one that began with it"
            )
        renderer = _renderer(body, tokenizer)
        prompts = [found.prompt or found.messages for found in in_part(lines.read_bytes(), part)]
        if not prompts:
            raise WorkFailed(f"the part {part!r} has no conversation; expected at least one")
        torch.set_num_threads(body.threads)
        engine = _engine(kind, body, tokenizer)
        try:
            opened = [tuple(renderer.open(prompt).tolist()) for prompt in prompts]
        except TemplateError as error:
            raise WorkFailed(f"the prompts cannot be asked of {body.name}: {error}") from error
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


def _engine(kind: Kind, body: Body, tokenizer: BytePairTokenizer) -> "Engine":
    from tutti.inference.engine import Mode

    if kind is Kind.VLLM:
        from tutti.inference.vllmengine import VllmEngine

        return VllmEngine(body.layout, tokenizer, mode=Mode.FAST)
    from tutti.inference.slotengine import SlotEngine

    return SlotEngine(body.layout, rows=body.rows, mode=Mode.FAST)
