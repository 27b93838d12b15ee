"""vLLM behind a few calls: it opens an exported model, generates, scores and reloads weights; imports vLLM when opened.

Promises: every answer names the weights that computed it. Written for vLLM 0.33; nothing else knows its interfaces.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM


@dataclass(frozen=True)
class Wish:
    """Parameters of one request, by their names in vLLM's `SamplingParams`.

    `prompt_logprobs` is 0 where the tokens of the prompt are scored. `logit_bias` is added to the logits of some ids.
    """

    temperature: float
    top_p: float
    top_k: int
    seed: int
    max_tokens: int
    stop_token_ids: list[int]
    logit_bias: dict[int, float]
    prompt_logprobs: int | None = None


@dataclass(frozen=True)
class Piece:
    """Tokens that follow what the request has had so far, with their log-probabilities at temperature 1.

    `prompt` has the log-probability of every token of the prompt but the first, if they are scored. The last piece of a
    request gives a reason in `ended`, and in `weights` the digests of all weights that have chosen its tokens.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    prompt: tuple[float, ...] = ()
    ended: str = ""
    weights: tuple[str, ...] = ()


class Server(Protocol):
    """One model behind vLLM. All calls come from the thread of one event loop."""

    @property
    def device(self) -> str:
        """Return the model name of the device."""
        ...

    @property
    def version(self) -> str: ...

    def generate(self, name: str, prompt: tuple[int, ...], wish: Wish) -> AsyncGenerator[Piece, None]:
        """Yield the pieces of a request; `name` is unique. The request is aborted where the iterator is closed."""
        ...

    async def load(self, folder: Path, digest: str) -> None:
        """Replace the weights by those of an export. No request is in progress."""
        ...

    def close(self) -> None:
        """End vLLM's processes."""
        ...


class AsyncServer:
    """vLLM's asynchronous engine, whose model runs in a process of its own."""

    def __init__(self, engine: "AsyncLLM", seconds: float) -> None:
        import vllm
        from vllm.platforms import current_platform

        self._engine, self._seconds = engine, seconds
        self.version, self.device = str(vllm.__version__), str(current_platform.get_device_name())

    async def generate(self, name: str, prompt: tuple[int, ...], wish: Wish) -> AsyncGenerator[Piece, None]:
        from vllm import SamplingParams
        from vllm.inputs import tokens_input
        from vllm.sampling_params import RequestOutputKind

        asked = SamplingParams(
            **asdict(wish), logprobs=0, ignore_eos=True, detokenize=False, output_kind=RequestOutputKind.DELTA
        )
        # Closed here: the loop would close it only when it is collected, and the request would run until then.
        async with aclosing(self._engine.generate(tokens_input(list(prompt)), asked, name)) as outputs:
            async for output in outputs:
                yield _piece(output, prompt)

    async def load(self, folder: Path, digest: str) -> None:
        engine = self._engine
        await engine.collective_rpc("reload_weights", self._seconds, kwargs={"weights_path": str(folder)})
        if not await engine.reset_prefix_cache():
            raise RuntimeError("vLLM keeps prefixes that other weights have read; expected an empty cache")
        await engine.update_weight_version(digest)

    def close(self) -> None:
        self._engine.shutdown(self._seconds)


async def opened(folder: Path, digest: str, length: int, seconds: float) -> Server:
    """Open the export in `folder`, for prompts and completions of `length` tokens together.

    A call to vLLM may take `seconds`.
    """
    # A forked process would share locks with threads that it does not have, and the state of CUDA.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    from vllm import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    arguments = AsyncEngineArgs(
        model=str(folder),
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=length,
        # vLLM limits its length to the context, and then cannot score a text that fills a row of training.
        hf_overrides={"max_position_embeddings": length},
        generation_config="vllm",
        logprobs_mode="raw_logprobs",
        disable_log_stats=True,
    )
    server = AsyncServer(AsyncLLM.from_engine_args(arguments), seconds)
    await server._engine.update_weight_version(digest)
    return server


def _piece(output: Any, prompt: tuple[int, ...]) -> Piece:
    """The piece of a `RequestOutput` of one completion, as a delta."""
    [one] = output.outputs
    tokens = tuple(one.token_ids)
    rows = one.logprobs or []
    scored = output.prompt_logprobs or []
    return Piece(
        tokens=tokens,
        logprobs=tuple(float(row[token].logprob) for row, token in zip(rows, tokens, strict=True)),
        prompt=tuple(float(row[token].logprob) for row, token in zip(scored[1:], prompt[1:], strict=bool(scored))),
        ended=one.finish_reason or "",
        weights=tuple(span.version for span in one.weight_versions or ()),
    )
