"""The contract of an engine, for every adapter.

The adapter for vLLM runs twice: over a server of this file, which computes with transformers and is always there, and
over vLLM, where that is installed. Those two promise equal values up to rounding.
"""

import asyncio
import importlib.util
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.theirs import their_model

from tutti.inference.decoder import Decoder
from tutti.inference.decoder_test import MODEL, parameters, tokens_of
from tutti.inference.engine import (
    Completion,
    Engine,
    EngineBusy,
    EngineStopped,
    Mode,
    Request,
    RequestRefused,
    Tokens,
    Weights,
    generate,
)
from tutti.inference.errors import PromptTooLong
from tutti.inference.generation import generate as reference_generate
from tutti.inference.huggingface_test import TOKENIZER
from tutti.inference.limits import Limits, Stop
from tutti.inference.sampling import Sampling
from tutti.inference.slotengine import SlotEngine
from tutti.inference.vllmengine import VllmEngine
from tutti.inference.vllmserver import Piece, Wish
from tutti.model.chunks import Layout

SMALL = replace(MODEL, width=64, hidden=160)
END = SMALL.vocabulary - 1
LIMITS = Limits(tokens=10, end=END, vocabulary=SMALL.vocabulary)
SAMPLING = Sampling(seed=5)
ROUNDING = 1e-2
"""Nats between decoding and scoring that kernels of another program may differ by."""


class Transformers:
    """A server that computes with transformers, a token of each request after the other."""

    device, version = "none", "0.33.0"

    def __init__(self, folder: Path, digest: str) -> None:
        self._read(folder, digest)

    def _read(self, folder: Path, digest: str) -> None:
        self._model, self._digest = their_model(folder), digest

    async def load(self, folder: Path, digest: str) -> None:
        self._read(folder, digest)

    def close(self) -> None:
        del self._model

    async def generate(self, name: str, prompt: tuple[int, ...], wish: Wish) -> AsyncGenerator[Piece, None]:
        text, draws = list(prompt), torch.Generator().manual_seed(wish.seed)
        scored: tuple[float, ...] = ()
        ended = ""
        while not ended:
            await asyncio.sleep(0)
            rows = self._rows(text)
            if wish.prompt_logprobs is not None:
                scored = tuple(rows[at, token].item() for at, token in enumerate(prompt[1:]))
            logits = rows[-1].clone()
            for each, bias in wish.logit_bias.items():
                logits[each] += bias
            token = int(logits.argmax())
            if wish.temperature:
                chances = (logits / wish.temperature).softmax(-1)
                token = int(torch.multinomial(chances, 1, generator=draws))
            text.append(token)
            if token in wish.stop_token_ids:
                ended = "stop"
            elif len(text) - len(prompt) == wish.max_tokens:
                ended = "length"
            yield Piece((token,), (rows[-1, token].item(),), scored, ended, (self._digest,) if ended else ())

    def _rows(self, text: list[int]) -> torch.Tensor:
        """Log-probabilities after each token, [len(text), vocabulary]."""
        with torch.no_grad():
            logits: torch.Tensor = self._model(torch.tensor([text])).logits[0]
        return logits.log_softmax(-1)


async def transformers(folder: Path, digest: str, length: int, seconds: float) -> Transformers:
    return Transformers(folder, digest)


def over_slots(mode: Mode) -> Engine:
    return SlotEngine(Layout(SMALL), rows=2, mode=mode, slots=8)


def over_transformers() -> VllmEngine:
    return VllmEngine(Layout(SMALL), TOKENIZER, mode=Mode.FAST, seconds=60, opening=transformers)


def over_vllm() -> VllmEngine:
    return VllmEngine(Layout(SMALL), TOKENIZER, mode=Mode.FAST)


ADAPTERS = [
    pytest.param(partial(over_slots, Mode.FAST), id="slots-fast"),
    pytest.param(partial(over_slots, Mode.EXACT), id="slots-exact"),
    pytest.param(over_transformers, id="transformers"),
    pytest.param(
        over_vllm,
        id="vllm",
        marks=pytest.mark.skipif(
            importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: pip install 'tutti[vllm]'"
        ),
    ),
]


@pytest.fixture(params=ADAPTERS)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    made: Callable[[], Engine] = request.param
    engine = made()
    engine.start(Weights("seed-1", parameters(SMALL, 1)[1]))
    yield engine
    engine.stop()


def requests(count: int) -> list[Request]:
    return [Request(100 + k, tuple(tokens_of(SMALL, 1 + 3 * k % 17, seed=k // 2))) for k in range(count)]


def same(engine: Engine, one: Completion, other: Completion) -> bool:
    """Equal completions; log-probabilities of an engine over another program differ by rounding."""
    rounding = 0.0 if isinstance(engine, SlotEngine) else ROUNDING
    return (one.number, one.tokens, one.stop) == (other.number, other.tokens, other.stop) and np.allclose(
        one.logprobs, other.logprobs, rtol=0, atol=rounding
    )


def test_a_completion_does_not_depend_on_what_is_generated_beside_it(engine: Engine) -> None:
    together = generate(engine, requests(19), SAMPLING, LIMITS)
    for one, request in zip(together, requests(19), strict=True):
        assert same(engine, one, generate(engine, [request], SAMPLING, LIMITS)[0])
    backwards = generate(engine, requests(19)[::-1], SAMPLING, LIMITS)
    assert all(same(engine, one, other) for one, other in zip(together, backwards[::-1], strict=True))


@pytest.mark.parametrize("count", [16, 20])
def test_answers_to_one_prompt_are_those_that_are_generated_alone(engine: Engine, count: int) -> None:
    asked = [Request(k, tuple(tokens_of(SMALL, 5, seed=k // 4))) for k in range(count)]
    together = generate(engine, asked, SAMPLING, LIMITS)
    assert len({one.tokens for one in together}) == count
    for one, request in zip(together, asked, strict=True):
        assert same(engine, one, generate(engine, [request], SAMPLING, LIMITS)[0])


def test_control_another_number_draws_another_completion(engine: Engine) -> None:
    [one] = generate(engine, [Request(1, (3, 4))], SAMPLING, LIMITS)
    [other] = generate(engine, [Request(2, (3, 4))], SAMPLING, LIMITS)
    assert one.tokens != other.tokens


def test_the_stream_yields_every_token_of_every_completion(engine: Engine) -> None:
    tokens: dict[int, list[int]] = {}
    for event in engine.stream(requests(12), SAMPLING, LIMITS):
        if isinstance(event, Tokens):
            for number, token in zip(event.numbers, event.tokens.tolist(), strict=True):
                tokens.setdefault(number, []).append(token)
        else:
            assert tokens[event.number] == list(event.tokens)
            assert len(event.logprobs) == len(event.tokens)
            assert (event.logprobs <= 0).all()
            assert (event.stop is Stop.END) == (event.tokens[-1] == END)
    assert len(tokens) == 12


@pytest.mark.parametrize("temperature", [0, 1])
def test_ids_without_a_text_are_never_chosen(engine: Engine, temperature: float) -> None:
    limits = Limits(tokens=10, end=9, vocabulary=10)
    for one in generate(engine, requests(3), Sampling(temperature=temperature), limits):
        assert max(one.tokens) < 10
        assert (one.stop is Stop.END) == (one.tokens[-1] == 9)


def test_the_log_probabilities_are_those_that_scoring_gives(engine: Engine) -> None:
    found = generate(engine, requests(9), SAMPLING, LIMITS)
    scores = engine.score([(*each.prompt, *one.tokens) for each, one in zip(requests(9), found, strict=True)])
    for request, one, row in zip(requests(9), found, scores, strict=True):
        seen = row[len(request.prompt) - 1 :]
        if engine.mode is Mode.EXACT:
            assert np.array_equal(seen, one.logprobs)
        np.testing.assert_allclose(seen, one.logprobs, atol=1e-4 if isinstance(engine, SlotEngine) else ROUNDING)


def test_the_tokens_are_those_of_the_decoder_that_reads_one_text_at_a_time(engine: Engine) -> None:
    [one] = generate(engine, requests(6)[5:], Sampling(temperature=0), LIMITS)
    decoder = Decoder(*parameters(SMALL))
    [other] = reference_generate(decoder, [requests(6)[5].prompt], Sampling(temperature=0), LIMITS)
    assert tuple(token for token in one.tokens if token != END) == other.tokens


def test_a_text_ends_where_the_context_does(engine: Engine) -> None:
    prompt = tuple(tokens_of(SMALL, SMALL.context - 2))
    [one] = generate(engine, [Request(0, prompt)], SAMPLING, Limits(tokens=10, end=-1, vocabulary=SMALL.vocabulary))
    assert (len(one.tokens), one.stop) == (2, Stop.CONTEXT)


@pytest.mark.parametrize("place", [3, 19])
def test_what_is_cancelled_ends_with_what_it_has(engine: Engine, place: int) -> None:
    """The last of twenty waits for a slot: an engine has at least sixteen."""
    whole = generate(engine, requests(20), SAMPLING, LIMITS)
    found = {}
    for event in engine.stream(requests(20), SAMPLING, LIMITS):
        if isinstance(event, Tokens):
            engine.cancel(100 + place)
        else:
            found[event.number] = event
    assert found[100 + place].stop is Stop.CANCELLED
    assert len(found[100 + place].tokens) < len(whole[place].tokens)
    assert all(same(engine, found[each.number], each) for each in whole if each.number != 100 + place)
    engine.cancel(100 + place)


def test_weights_are_swapped_by_digest_between_generations(engine: Engine) -> None:
    before = generate(engine, requests(3), SAMPLING, LIMITS)
    stream = engine.stream(requests(3), SAMPLING, LIMITS)
    next(stream)
    other = Weights("seed-2", parameters(SMALL, 2)[1])
    with pytest.raises(EngineBusy, match="3 sequences are in progress"):
        engine.swap(other)
    stream.close()  # type: ignore[attr-defined]
    engine.swap(other)
    assert engine.digest == "seed-2"
    after = generate(engine, requests(3), SAMPLING, LIMITS)
    assert [one.tokens for one in before] != [one.tokens for one in after]
    engine.swap(Weights("seed-1", parameters(SMALL, 1)[1]))
    assert all(map(partial(same, engine), before, generate(engine, requests(3), SAMPLING, LIMITS)))


def test_requests_that_cannot_be_served_are_refused_before_the_first_token(engine: Engine) -> None:
    with pytest.raises(PromptTooLong, match="shorten it by at least 1"):
        engine.stream([Request(0, (1,) * SMALL.context)], SAMPLING, LIMITS)
    with pytest.raises(RequestRefused, match="two requests have the number 7"):
        engine.stream([Request(7, (1,)), Request(7, (2,))], SAMPLING, LIMITS)
    with pytest.raises(PromptTooLong, match="text 1 has 34 tokens; expected 1 to 33"):
        engine.score([(1, 2), (1,) * 34])


def test_an_engine_that_was_stopped_says_so(engine: Engine) -> None:
    engine.stop()
    for call in (
        lambda: engine.digest,
        lambda: engine.score([(1, 2)]),
        lambda: engine.cancel(1),
        lambda: engine.stream([], SAMPLING, LIMITS),
    ):
        with pytest.raises(EngineStopped, match="start it first"):
            call()
