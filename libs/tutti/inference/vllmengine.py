"""The port of an engine over vLLM, in fast mode alone: weights go to it as exports, and their digests come back.

Promises: those of the port up to the rounding of vLLM's kernels, which depends on the texts that are computed together.
Draws are keyed by (seed, number). Every wait ends after `seconds` with an error that names what it waited for.
"""

import asyncio
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.inference.engine import (
    Completion,
    EngineBusy,
    EngineFailed,
    EngineStopped,
    Mode,
    NotExact,
    Request,
    RequestRefused,
    Tokens,
    Weights,
    WeightsRefused,
)
from tutti.inference.errors import InferenceError, InvalidSampling, NotFinite, PromptTooLong
from tutti.inference.huggingface import WEIGHTS, Exported, NotExportable, write
from tutti.inference.limits import Limits, Stop
from tutti.inference.sampling import Sampling
from tutti.inference.vllmserver import Piece, Server, Wish, opened
from tutti.model.chunks import Layout
from tutti.model.kernel import KernelSignature, kernel_signature
from tutti.model.spec import StepSpec

T = TypeVar("T")
Open = Callable[[Path, str, int, float], Awaitable[Server]]
SECONDS = 240.0
COLDEST = 0.01
"""vLLM takes a temperature between 0 and this one for this one."""
NEVER = -100.0
"""The lowest bias of vLLM: ids without a text are named so, since it takes at most 1,024 allowed ids."""
_WHOLE = ("stop", "length")
"""The reasons of vLLM for the end of a request that it answered."""
_DIVERGED = "the model's log-probabilities are not finite; its parameters have diverged: take an earlier checkpoint"
_log = logging.getLogger(__name__)
_Asked = tuple[tuple[int, ...], Wish]
"""The prompt of a request, and its parameters."""


def wish(sampling: Sampling, limits: Limits, *, number: int, most: int, vocabulary: int) -> Wish:
    """Return the parameters of a completion of at most `most` tokens, by a model of `vocabulary` ids.

    vLLM draws with a generator for each request, so its seed follows from ours and the number. Raises InvalidSampling.
    """
    if 0 < sampling.temperature < COLDEST:
        raise InvalidSampling("temperature", seen=sampling.temperature, expected=f"0, or at least {COLDEST} with vLLM")
    [seed] = np.random.SeedSequence([sampling.seed, number]).generate_state(1, np.uint64).tolist()
    return Wish(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        seed=seed >> 1,
        max_tokens=most,
        stop_token_ids=[each for each in (limits.end, *limits.ends) if 0 <= each < vocabulary],
        logit_bias=dict.fromkeys([*limits.never, *range(limits.vocabulary, vocabulary)], NEVER),
    )


SCORING = Wish(
    temperature=0.0,
    top_p=1.0,
    top_k=0,
    seed=0,
    max_tokens=1,
    stop_token_ids=[],
    logit_bias={},
    prompt_logprobs=0,
)


def kernels(device: str, version: str) -> KernelSignature:
    """Return the kernel signature of vLLM on a device."""
    own = kernel_signature(StepSpec(), torch.device("cpu"))
    return replace(own, device=device, attention=f"vllm-{version}", exact=False)


@dataclass(eq=False)
class _Growing:
    """A completion in progress."""

    number: int
    prompt: tuple[int, ...]
    most: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    stop: Stop | None = None

    def completion(self) -> Completion:
        assert self.stop is not None
        return Completion(self.number, tuple(self.tokens), np.array(self.logprobs, np.float32), self.stop)


@dataclass(eq=False)
class _Loaded:
    """vLLM with the weights of a digest; `folder` has their export, `scratch` every export."""

    server: Server
    loop: asyncio.AbstractEventLoop
    digest: str
    folder: Path
    scratch: "TemporaryDirectory[str]"


class VllmEngine:
    """One model of a layout; a `length` of 0 is its context. An export has the tokenizer, which vLLM does not use."""

    def __init__(
        self,
        layout: Layout,
        tokenizer: BytePairTokenizer,
        *,
        mode: Mode,
        length: int = 0,
        seconds: float = SECONDS,
        opening: Open = opened,
    ) -> None:
        """`opening` makes the server, which the tests replace where there is no vLLM."""
        self.mode, self._layout, self._tokenizer = mode, layout, tokenizer
        self._length, self._seconds, self._opening = length or layout.model.context, seconds, opening
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._loaded: _Loaded | None = None
        self._progress: dict[int, _Growing] = {}
        self._serial = 0

    @property
    def digest(self) -> str:
        return self._now().digest

    def start(self, weights: Weights) -> None:
        if self.mode is Mode.EXACT:
            raise NotExact(
                "vLLM computes with kernels of its own, whose bits are not those of training's forward: use fast mode, "
                "or the engine `slots`"
            )
        self.stop()
        scratch = TemporaryDirectory(prefix="tutti-vllm-")
        try:
            folder = self._exported(weights, Path(scratch.name))
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True)
            self._thread.start()
            # One position more than a row of training, for the token that vLLM generates after a text that it scores.
            opening = self._opening(folder, weights.digest, self._length + 2, self._seconds)
            server = self._wait(_awaited(opening), "the start")
        except BaseException:
            scratch.cleanup()
            self._end_loop()
            raise
        self._loaded = _Loaded(server, self._loop, weights.digest, folder, scratch)
        signature = kernels(server.device, server.version)
        _log.info(
            "vLLM %s on %s has the weights %s: kernel signature %s",
            server.version,
            server.device,
            weights.digest,
            signature.digest(),
        )

    def swap(self, weights: Weights) -> None:
        now = self._now()
        self._require_idle()
        if weights.digest == now.digest:
            return
        folder = self._exported(weights, Path(now.scratch.name))
        try:
            self._wait(now.server.load(folder, weights.digest), "other weights")
        except BaseException:
            self.stop()  # which weights it has is unknown
            raise
        (now.folder / WEIGHTS).unlink()
        now.digest, now.folder = weights.digest, folder

    def cancel(self, number: int) -> None:
        self._now()
        if number in self._progress:
            self._progress[number].stop = Stop.CANCELLED

    def stop(self) -> None:
        loaded, self._loaded = self._loaded, None
        self._progress.clear()
        if loaded is None:
            return
        try:
            self._wait(_closed(loaded.server), "the end")
        finally:
            self._end_loop()
            loaded.scratch.cleanup()

    def score(self, texts: Sequence[Sequence[int]]) -> list[npt.NDArray[np.float32]]:
        now, most = self._now(), self._length + 1
        for number, text in enumerate(texts):
            if not 0 < len(text) <= most:
                raise PromptTooLong(f"text {number} has {len(text)} tokens; expected 1 to {most}, those of a row")
        rows = [np.zeros(len(text) - 1, np.float32) for text in texts]
        every = {number: (tuple(text), SCORING) for number, text in enumerate(texts) if len(text) > 1}
        waits = set(every)
        with closing(self._pieces(now, every, waits)) as pieces:
            for number, piece in pieces:
                if piece.prompt:
                    rows[number][:] = piece.prompt
                if piece.ended:
                    waits.discard(number)
        if not all(np.isfinite(row).all() for row in rows):
            raise NotFinite(_DIVERGED)
        return rows

    def stream(self, requests: Sequence[Request], sampling: Sampling, limits: Limits) -> Iterator[Tokens | Completion]:
        now = self._now()
        self._require_idle()
        every, vocabulary = self._begun(requests, limits), self._layout.model.vocabulary
        wishes = [wish(sampling, limits, number=x.number, most=x.most, vocabulary=vocabulary) for x in every]
        return self._streamed(now, every, wishes, limits)

    def _begun(self, requests: Sequence[Request], limits: Limits) -> list[_Growing]:
        room, every = self._length, dict[int, _Growing]()
        for request in requests:
            prompt = request.prompt or (limits.end,)
            if len(prompt) >= room:
                raise PromptTooLong(
                    f"prompt {request.number} has {len(prompt)} tokens, the engine's length is {room}; shorten it by "
                    f"at least {len(prompt) - room + 1}"
                )
            if request.number in every:
                raise RequestRefused(f"two requests have the number {request.number}; give each its own")
            every[request.number] = _Growing(request.number, prompt, min(room - len(prompt), limits.tokens))
        return list(every.values())

    def _streamed(
        self, now: _Loaded, every: list[_Growing], wishes: list[Wish], limits: Limits
    ) -> Iterator[Tokens | Completion]:
        self._require_idle()
        progress = self._progress = {growing.number: growing for growing in every}
        asked = {each.number: (each.prompt, one) for each, one in zip(every, wishes, strict=True)}
        pieces = self._pieces(now, asked, progress)
        try:
            for number, piece in pieces:
                growing = progress[number]
                for token, logprob in zip(piece.tokens, piece.logprobs, strict=True):
                    if not math.isfinite(logprob):
                        raise NotFinite(_DIVERGED)
                    growing.tokens.append(token)
                    growing.logprobs.append(logprob)
                    yield Tokens((number,), np.array([token]), np.array([logprob], np.float32))
                if piece.ended:
                    growing.stop = growing.stop or self._reason(growing, piece, limits)
                for each in [each for each in progress.values() if each.stop is not None]:
                    del progress[each.number]
                    yield each.completion()
        finally:
            self._progress = {}
            pieces.close()

    def _reason(self, growing: _Growing, piece: Piece, limits: Limits) -> Stop:
        """The reason why vLLM ended a completion. Raises EngineFailed."""
        if growing.tokens and limits.is_end(growing.tokens[-1]):
            return Stop.END
        if len(growing.tokens) == growing.most:
            return Stop.TOKENS if growing.most == limits.tokens else Stop.CONTEXT
        raise EngineFailed(
            f"vLLM ended completion {growing.number} after {len(growing.tokens)} of at most {growing.most} tokens, "
            f"by its reason {piece.ended!r}; expected the end of the text, or all tokens: ask again"
        )

    def _pieces(
        self, now: _Loaded, every: dict[int, _Asked], waits: Collection[int]
    ) -> Generator[tuple[int, Piece], None, None]:
        """The pieces of requests as they arrive, until the caller has emptied `waits`, which has their numbers.

        A request whose number the caller removes is aborted. Raises EngineFailed, EngineStopped, WeightsRefused.
        """
        self._serial += 1
        arrived = SimpleQueue[tuple[int, Piece | Exception]]()
        tasks = self._wait(_begin(now.server, every, self._serial, arrived), "the beginning of requests")
        try:
            while waits:
                for number in [number for number in tasks if number not in waits]:
                    now.loop.call_soon_threadsafe(tasks.pop(number).cancel)
                try:
                    number, piece = arrived.get(timeout=self._seconds)
                except Empty:
                    raise self._late(f"a token of {len(waits)} requests") from None
                if isinstance(piece, Exception):
                    raise _failure(piece, f"request {number}") from piece
                if number not in waits:
                    continue
                if piece.ended in _WHOLE and set(piece.weights) != {now.digest}:
                    seen = ", ".join(piece.weights) or "of no digest"
                    raise WeightsRefused(
                        f"vLLM answered request {number} with the weights {seen}; expected {now.digest}: start the "
                        "engine anew"
                    )
                yield number, piece
                if self._loaded is not now:
                    raise EngineStopped("the engine was stopped while a stream was open; start it first")
        finally:
            if self._loaded is now:
                self._wait(_end(tasks.values()), "the end of requests")

    def _exported(self, weights: Weights, scratch: Path) -> Path:
        """The folder of an export of some weights. Raises WeightsRefused."""
        self._serial += 1
        folder = scratch / str(self._serial)
        try:
            write(Exported(self._layout, weights.vector.float().cpu().numpy(), self._tokenizer), folder)
        except NotExportable as error:
            raise WeightsRefused(f"vLLM cannot take {weights.digest}: {error}") from error
        return folder

    def _wait(self, work: Coroutine[Any, Any, T], what: str) -> T:
        """Return what a coroutine gives in the loop's thread. Raises EngineFailed, and errors of inference."""
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(self._seconds)
        except Exception as error:
            if isinstance(error, TimeoutError) and not future.done():
                future.cancel()
                raise self._late(what) from error
            raise _failure(error, what) from error

    def _late(self, what: str) -> EngineFailed:
        return EngineFailed(
            f"vLLM did not give {what} within {self._seconds:g} s; its log says what it does: start anew"
        )

    def _end_loop(self) -> None:
        """End the loop's thread; one that vLLM does not give back ends with the process."""
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(min(self._seconds, 10.0))
            if not thread.is_alive():
                loop.close()

    def _require_idle(self) -> None:
        if self._progress:
            raise EngineBusy(f"{len(self._progress)} sequences are in progress; consume or close their stream first")

    def _now(self) -> _Loaded:
        if self._loaded is None:
            raise EngineStopped("the engine has no weights; start it first")
        return self._loaded


def _failure(error: Exception, what: str) -> Exception:
    if isinstance(error, InferenceError):
        return error
    return EngineFailed(
        f"vLLM failed at {what}: {type(error).__name__}: {error}; its log has more: start the engine anew"
    )


async def _awaited(work: Awaitable[T]) -> T:
    return await work


async def _closed(server: Server) -> None:
    server.close()


async def _begin(
    server: Server, every: dict[int, _Asked], serial: int, arrived: "SimpleQueue[tuple[int, Piece | Exception]]"
) -> "dict[int, asyncio.Task[None]]":
    """Begin requests, whose pieces or errors go to `arrived`."""

    async def answer(number: int, prompt: tuple[int, ...], own: Wish) -> None:
        try:
            async with aclosing(server.generate(f"{serial}-{number}", prompt, own)) as pieces:
                async for piece in pieces:
                    arrived.put((number, piece))
        except Exception as error:
            arrived.put((number, error))

    return {number: asyncio.create_task(answer(number, *asked)) for number, asked in every.items()}


async def _end(tasks: "Iterable[asyncio.Task[None]]") -> None:
    """Abort the requests that are not whole."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
