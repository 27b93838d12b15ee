"""Conversations answered by a staged checkpoint, in a process of the pool: torch is imported there alone.

Answers are numbered over the whole set, prompt after prompt, and draws are keyed by these numbers. They are written as
JSON lines.
"""

from dataclasses import dataclass
from pathlib import Path

from tutti.chassis.tasks import WorkFailed
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.staged import open_staged
from tutti.corpus.conversations import Answer, to_lines
from tutti.corpus.conversationset import in_part
from tutti.corpus.template import of_digest
from tutti.corpus.tokenizer import BytePairTokenizer
from tutti.inference.errors import InferenceError
from tutti.inference.parameters import parameters_of
from tutti.inference.sampling import Sampling
from tutti.records.errors import CorpusError


@dataclass(frozen=True)
class Answered:
    """The number of answers written, and the number of their tokens."""

    answers: int
    tokens: int


def answer(
    folder: Path,
    tokenizer: BytePairTokenizer,
    lines: Path,
    part: str,
    sampling: Sampling,
    tokens: int,
    each: int,
    to: Path,
) -> Answered:
    """Write `each` answers of at most `tokens` tokens to every conversation of a part, as JSON lines.

    The answer at the end of a demonstration is left out. Raises WorkFailed when a prompt fills the model's context, the
    model knows no conversations, or something is damaged.
    """
    import torch

    from tutti.inference.engine import Completion, Mode, Request, Weights
    from tutti.inference.limits import Limits
    from tutti.inference.slotengine import SlotEngine

    try:
        staged = open_staged(folder)
        training = staged.body.training
        if not training.template:
            raise WorkFailed(
                f"{staged.body.name} was not trained on conversations and has no chat template; take a checkpoint of a "
                "stage `sft`, or one that began with it"
            )
        renderer = of_digest(training.template).bind(tokenizer)
        prompts = [found.prompt or found.messages for found in in_part(lines.read_bytes(), part)]
        if not prompts:
            raise WorkFailed(f"the part {part!r} has no conversation; expected at least one")
        torch.set_num_threads(training.step.threads)
        engine = SlotEngine(staged.body.layout, rows=training.step.rows, mode=Mode.FAST)
        engine.start(Weights(staged.body.model_digest, torch.from_numpy(parameters_of(staged))))
        requests = [
            Request(index * each + k, tuple(renderer.open(prompt).tolist()))
            for index, prompt in enumerate(prompts)
            for k in range(each)
        ]
        limits = Limits(tokens=tokens, end=tokenizer.eos, vocabulary=tokenizer.vocabulary)
        found: dict[int, Answer] = {}
        for event in engine.stream(requests, sampling, limits):
            if isinstance(event, Completion):
                said = tuple(token for token in event.tokens if token != tokenizer.eos)
                prompt = prompts[event.number // each]
                found[event.number] = Answer(prompt, event.number, tokenizer.decode(said), said, str(event.stop))
    except (InferenceError, CheckpointError, CorpusError) as error:
        raise WorkFailed(str(error)) from error
    ordered = [found[number] for number in sorted(found)]
    to.write_bytes(to_lines(ordered))
    return Answered(len(ordered), sum(len(one.tokens) for one in ordered))
