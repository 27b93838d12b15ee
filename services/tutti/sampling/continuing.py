"""Texts continued by a model in the resident process: torch is imported there alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.inference.memory import ROWS, cache_bytes, reading_bytes
from tutti.inference.models import Wanted
from tutti.inference.sampling import Sampling
from tutti.model.spec import ModelSpec
from tutti.sampling.models import body_of, counted, model_of

LOGIC_VERSION = "sampling-2"


@dataclass(frozen=True)
class Continued:
    """The continuation of a prompt; `stop` is a `tutti.inference.generation.Stop`."""

    prompt: str
    text: str
    tokens: int
    stop: str


def continue_texts(
    wanted: Wanted, tokenizer: BytePairTokenizer, prompts: Sequence[str], sampling: Sampling, tokens: int
) -> list[Continued]:
    """Continue each prompt by at most `tokens` tokens, on as many threads as the model was trained with.

    Raises NotLoaded, and WorkFailed when a prompt fills the model's context, or the checkpoint is damaged.
    """
    ids = [[*tokenizer.opening, *encoded.tolist()] for encoded in tokenizer.encode_all(prompts)]
    with model_of(wanted, _beside(body_of(wanted).layout.model, [len(each) for each in ids], tokens)) as model:
        import torch

        from tutti.inference.decoder import Decoder
        from tutti.inference.generation import generate
        from tutti.inference.limits import Limits

        torch.set_num_threads(model.body.threads)
        decoder = Decoder(model.body.layout, model.vector)
        never = tuple(tokenizer.reserved.values())
        limits = Limits(tokens, tokenizer.eos, tokenizer.vocabulary, never, tokenizer.ends)
        found = generate(decoder, ids, sampling, limits, advanced=counted(len(ids) * tokens))
    return [
        Continued(prompt, tokenizer.decode(each.tokens), len(each.tokens), each.stop.value)
        for prompt, each in zip(prompts, found, strict=True)
    ]


def _beside(model: ModelSpec, prompts: Sequence[int], tokens: int) -> int:
    """The bytes beside the parameters, for prompts of these lengths: the longest are continued together at worst."""
    rooms = sorted((min(each + tokens, model.context) for each in prompts), reverse=True)
    return cache_bytes(model, sum(rooms[:ROWS])) + reading_bytes(model, min(max(prompts, default=0), model.context))
