"""Texts continued by a staged checkpoint, in a process of the pool: torch is imported there alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tutti.chassis.tasks import WorkFailed
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.staged import open_staged
from tutti.corpus.tokenizer import BytePairTokenizer
from tutti.inference.errors import InferenceError
from tutti.inference.parameters import parameters_of
from tutti.inference.sampling import Sampling

LOGIC_VERSION = "sampling-1"


@dataclass(frozen=True)
class Continued:
    """The continuation of a prompt; `stop` is a `tutti.inference.generation.Stop`."""

    prompt: str
    text: str
    tokens: int
    stop: str


def continue_texts(
    folder: Path, tokenizer: BytePairTokenizer, prompts: Sequence[str], sampling: Sampling, tokens: int
) -> list[Continued]:
    """Continue each prompt by at most `tokens` tokens, on as many threads as the model was trained with.

    Raises WorkFailed when a prompt fills the model's context, or the checkpoint is damaged.
    """
    import torch

    from tutti.inference.decoder import Decoder
    from tutti.inference.generation import generate
    from tutti.inference.limits import Limits

    try:
        staged = open_staged(folder)
        torch.set_num_threads(staged.body.training.step.threads)
        decoder = Decoder(staged.body.layout, torch.from_numpy(parameters_of(staged)))
        ids = [encoded.tolist() for encoded in tokenizer.encode_all(prompts)]
        limits = Limits(tokens=tokens, end=tokenizer.eos, vocabulary=tokenizer.vocabulary)
        found = generate(decoder, ids, sampling, limits)
    except (InferenceError, CheckpointError) as error:
        raise WorkFailed(str(error)) from error
    return [
        Continued(prompt, tokenizer.decode(each.tokens), len(each.tokens), each.stop.value)
        for prompt, each in zip(prompts, found, strict=True)
    ]
