"""The adapter for vLLM where no vLLM is needed: its parameters, refusals, deadlines and digests.

`engine_test` has the contract.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tutti.backbone.connect import MissingExtra
from tutti.inference import vllmserver
from tutti.inference.decoder_test import parameters
from tutti.inference.engine import EngineFailed, EngineStopped, Mode, NotExact, Weights, WeightsRefused, generate
from tutti.inference.engine_test import LIMITS, SAMPLING, SMALL, Transformers, over_transformers, requests, transformers
from tutti.inference.engines import Kind, version_of
from tutti.inference.errors import InvalidSampling, NotFinite
from tutti.inference.huggingface import WEIGHTS
from tutti.inference.huggingface_test import TOKENIZER
from tutti.inference.limits import Limits
from tutti.inference.sampling import Sampling
from tutti.inference.vllmengine import Open, VllmEngine, kernels, wish
from tutti.inference.vllmserver import Piece, Wish
from tutti.model.chunks import Layout

WEIGHTS_1 = Weights("seed-1", parameters(SMALL)[1])


@pytest.fixture
def engine() -> Iterator[VllmEngine]:
    made = over_transformers()
    made.start(WEIGHTS_1)
    yield made
    made.stop()


def over(opening: Open, *, seconds: float = 60) -> VllmEngine:
    return VllmEngine(Layout(SMALL), TOKENIZER, mode=Mode.FAST, seconds=seconds, opening=opening)


def test_sampling_is_mapped_to_the_parameters_of_vllm() -> None:
    sampling, limits = Sampling(temperature=0.7, top_p=0.9, top_k=40, seed=5), Limits(10, end=299, vocabulary=300)
    found = wish(sampling, limits, number=7, most=6, vocabulary=320)
    assert found == Wish(0.7, 0.9, 40, found.seed, 6, [299], dict.fromkeys(range(300, 320), -100.0))
    assert wish(sampling, limits, number=7, most=6, vocabulary=300).logit_bias == {}
    assert wish(sampling, replace(limits, end=-1), number=7, most=6, vocabulary=320).stop_token_ids == []


def test_a_seed_follows_from_that_of_the_sampling_and_the_number() -> None:
    def seed(own: int, number: int) -> int:
        return wish(Sampling(seed=own), LIMITS, number=number, most=6, vocabulary=320).seed

    assert seed(5, 7) == seed(5, 7)
    seeds = {seed(own, number) for own in range(20) for number in range(20)}
    assert len(seeds) == 400
    assert all(0 <= each < 2**63 for each in seeds)


def test_a_temperature_that_vllm_would_change_is_refused() -> None:
    with pytest.raises(InvalidSampling, match=r"temperature is 0.001; expected 0, or at least 0.01 with vLLM"):
        wish(Sampling(temperature=0.001), LIMITS, number=7, most=6, vocabulary=320)
    assert wish(Sampling(temperature=0), LIMITS, number=7, most=6, vocabulary=320).temperature == 0


def test_exact_mode_is_refused_before_vllm_is_imported() -> None:
    engine = VllmEngine(Layout(SMALL), TOKENIZER, mode=Mode.EXACT)
    with pytest.raises(NotExact, match="use fast mode, or the engine `slots`"):
        engine.start(WEIGHTS_1)


def test_an_engine_that_is_not_installed_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert version_of(Kind.SLOTS) == ""
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.33.0")
    assert version_of(Kind.VLLM) == "vllm-0.33.0"

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    with pytest.raises(MissingExtra, match=r"vllm is not installed: pip install 'tutti\[vllm\]'"):
        version_of(Kind.VLLM)


def test_the_kernel_signature_has_the_version_of_vllm() -> None:
    one, other = kernels("NVIDIA H100", "0.33.0"), kernels("NVIDIA H100", "0.33.1")
    assert (one.attention, one.device, one.exact) == ("vllm-0.33.0", "NVIDIA H100", False)
    assert one.digest() != other.digest()


def test_an_output_of_vllm_is_read_as_a_piece() -> None:
    """Of the fields that vLLM 0.33 documents: a dictionary of log-probabilities by token, none for the first."""

    def row(token: int, logprob: float) -> dict[int, SimpleNamespace]:
        return {token: SimpleNamespace(logprob=logprob), 9: SimpleNamespace(logprob=-0.1)}

    one = SimpleNamespace(
        token_ids=[5, 6],
        logprobs=[row(5, -1.0), row(6, -2.0)],
        finish_reason="stop",
        weight_versions=[SimpleNamespace(version="seed-1", start=0, end=2)],
    )
    output = SimpleNamespace(outputs=[one], prompt_logprobs=[None, row(3, -3.0)])
    assert vllmserver._piece(output, (2, 3)) == Piece((5, 6), (-1.0, -2.0), (-3.0,), "stop", ("seed-1",))
    one.finish_reason = one.weight_versions = output.prompt_logprobs = None
    assert vllmserver._piece(output, (2, 3)) == Piece((5, 6), (-1.0, -2.0))


def test_weights_are_exported_to_a_folder_that_stop_removes() -> None:
    folders = list[Path]()

    class Recorded(Transformers):
        async def load(self, folder: Path, digest: str) -> None:
            folders.append(folder)
            await super().load(folder, digest)

    async def opening(folder: Path, digest: str, length: int, seconds: float) -> Transformers:
        assert length == SMALL.context + 2
        folders.append(folder)
        return Recorded(folder, digest)

    engine = over(opening)
    engine.start(WEIGHTS_1)
    assert (folders[0] / WEIGHTS).exists()
    engine.swap(Weights("seed-2", parameters(SMALL, 2)[1]))
    assert [(each / WEIGHTS).exists() for each in folders] == [False, True]
    engine.swap(Weights("seed-2", torch.empty(0)))  # equal digests are equal weights
    assert len(folders) == 2
    engine.stop()
    assert not folders[0].parent.exists()


def test_a_reward_model_is_refused() -> None:
    layout, vector = parameters(replace(SMALL, scalar_head=True))
    engine = VllmEngine(layout, TOKENIZER, mode=Mode.FAST, opening=transformers)
    with pytest.raises(WeightsRefused, match="vLLM cannot take reward: it is a reward model"):
        engine.start(Weights("reward", vector))
    with pytest.raises(EngineStopped):
        engine.score([(1, 2)])


def test_an_answer_by_other_weights_is_refused() -> None:
    class Stale(Transformers):
        async def load(self, folder: Path, digest: str) -> None:
            """Nothing is replaced."""

    async def opening(folder: Path, digest: str, length: int, seconds: float) -> Transformers:
        return Stale(folder, digest)

    engine = over(opening)
    engine.start(WEIGHTS_1)
    engine.swap(Weights("seed-2", parameters(SMALL, 2)[1]))
    with pytest.raises(WeightsRefused, match="with the weights seed-1; expected seed-2"):
        generate(engine, requests(3), SAMPLING, LIMITS)
    with pytest.raises(WeightsRefused, match="expected seed-2"):
        engine.score([(1, 2, 3)])
    engine.stop()


def test_a_swap_that_fails_stops_the_engine_since_its_weights_are_unknown() -> None:
    class Broken(Transformers):
        async def load(self, folder: Path, digest: str) -> None:
            raise RuntimeError("out of memory")

    async def opening(folder: Path, digest: str, length: int, seconds: float) -> Transformers:
        return Broken(folder, digest)

    engine = over(opening)
    engine.start(WEIGHTS_1)
    with pytest.raises(EngineFailed, match="vLLM failed at other weights: RuntimeError: out of memory"):
        engine.swap(Weights("seed-2", parameters(SMALL, 2)[1]))
    with pytest.raises(EngineStopped):
        engine.score([(1, 2)])


def test_a_start_that_hangs_ends_at_its_deadline() -> None:
    gone = threading.Event()

    async def opening(folder: Path, digest: str, length: int, seconds: float) -> Transformers:
        gone.wait()  # vLLM blocks its thread while it starts
        return Transformers(folder, digest)

    engine = over(opening, seconds=0.2)
    with pytest.raises(EngineFailed, match=r"vLLM did not give the start within 0.2 s"):
        engine.start(WEIGHTS_1)
    gone.set()


def test_a_token_that_does_not_come_ends_at_its_deadline_and_the_request_is_aborted() -> None:
    aborted = threading.Event()

    class Silent(Transformers):
        async def generate(self, name: str, prompt: tuple[int, ...], wish: Wish) -> AsyncGenerator[Piece, None]:
            try:
                await asyncio.Event().wait()
                yield Piece((), ())
            finally:
                aborted.set()

    async def opening(folder: Path, digest: str, length: int, seconds: float) -> Transformers:
        return Silent(folder, digest)

    engine = over(opening, seconds=1)
    engine.start(WEIGHTS_1)
    with pytest.raises(EngineFailed, match="vLLM did not give a token of 3 requests within 1 s"):
        generate(engine, requests(3), SAMPLING, LIMITS)
    assert aborted.is_set()
    engine.stop()


def test_a_request_that_fails_names_its_number() -> None:
    class Failing(Transformers):
        async def generate(self, name: str, prompt: tuple[int, ...], wish: Wish) -> AsyncGenerator[Piece, None]:
            raise RuntimeError("the engine core died")
            yield

    async def opening(folder: Path, digest: str, length: int, seconds: float) -> Transformers:
        return Failing(folder, digest)

    engine = over(opening)
    engine.start(WEIGHTS_1)
    with pytest.raises(EngineFailed, match="vLLM failed at request 100: RuntimeError: the engine core died"):
        generate(engine, requests(1), SAMPLING, LIMITS)
    engine.stop()


def test_a_completion_that_vllm_aborts_is_no_completion() -> None:
    class Aborting(Transformers):
        async def generate(self, name: str, prompt: tuple[int, ...], wish: Wish) -> AsyncGenerator[Piece, None]:
            yield Piece((1,), (-1.0,), ended="abort")

    async def opening(folder: Path, digest: str, length: int, seconds: float) -> Transformers:
        return Aborting(folder, digest)

    engine = over(opening)
    engine.start(WEIGHTS_1)
    with pytest.raises(EngineFailed, match="ended completion 100 after 1 of at most 10 tokens, by its reason 'abort'"):
        generate(engine, requests(1), SAMPLING, LIMITS)
    engine.stop()


def test_log_probabilities_that_are_not_finite_are_named(engine: VllmEngine) -> None:
    vector = parameters(SMALL)[1].fill_(float("nan"))
    engine.swap(Weights("diverged", vector))
    with pytest.raises(NotFinite, match="diverged"):
        engine.score([(1, 2, 3)])
    with pytest.raises(NotFinite, match="diverged"):
        generate(engine, requests(1), Sampling(temperature=0), LIMITS)


def test_an_engine_that_is_stopped_while_a_stream_is_open_ends_it(engine: VllmEngine) -> None:
    stream = engine.stream(requests(3), SAMPLING, LIMITS)
    next(stream)
    engine.stop()
    with pytest.raises(EngineStopped, match="while a stream was open"):
        list(stream)


def test_a_text_of_one_token_has_no_score(engine: VllmEngine) -> None:
    [none, some] = engine.score([(1,), (1, 2)])
    assert none.shape == (0,)
    assert some.shape == (1,)
    assert np.isfinite(some).all()


def test_stop_ends_the_thread_of_the_loop() -> None:
    before = threading.active_count()
    engine = over_transformers()
    for _ in range(2):
        engine.start(WEIGHTS_1)
        engine.stop()
    engine.stop()
    assert threading.active_count() == before
