"""Requests for completions, as many clients send them: some that ask again and again, or ever more at a fixed rate.

Promises: each request has a connection of its own, and is streamed; a request that is refused is not sent again; one
that is not answered in time leaves, as clients do.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

LIMIT_SECONDS = 120.0


@dataclass(frozen=True)
class Answer:
    """The end of a request. Times are seconds of time.perf_counter; `first` is that of the first text.

    `status` is 0 for a client that left; `is_told` is True for a refusal that says when to try again.
    """

    begun: float
    ended: float
    status: int
    first: float = 0.0
    tokens: int = 0
    whole: bool = False
    is_told: bool = False


@dataclass(frozen=True)
class Target:
    """A deployment, by the base URL of its API, and what is asked of it: `tokens` at most, of token ids."""

    base: str
    model: str
    token: str
    tokens: int
    top_p: float

    async def ask(self, prompt: Sequence[int], seconds: float = LIMIT_SECONDS) -> Answer:
        """Ask for one completion, and leave after `seconds`."""
        begun = time.perf_counter()
        try:
            async with asyncio.timeout(seconds):
                return await self._answer(prompt, begun)
        except TimeoutError:
            return Answer(begun, time.perf_counter(), 0)

    async def _answer(self, prompt: Sequence[int], begun: float) -> Answer:
        at = urlsplit(self.base)
        reader, writer = await asyncio.open_connection(at.hostname, at.port)
        try:
            writer.write(self._request(at.netloc, at.path, prompt))
            status = int((await reader.readline()).split()[1])
            headers = [line.lower() async for line in _until_blank(reader)]
            if status != 200:
                is_told = any(line.startswith(b"retry-after:") for line in headers)
                return Answer(begun, time.perf_counter(), status, is_told=is_told)
            first, tokens = 0.0, 0
            async for line in reader:
                if line.startswith(b"data: "):
                    first = first or time.perf_counter()
                    if line.startswith(b"data: [DONE]"):
                        return Answer(begun, time.perf_counter(), status, first, tokens, whole=True)
                    if b'"usage"' in line:
                        tokens = json.loads(line[len(b"data: ") :])["usage"]["completion_tokens"]
            return Answer(begun, time.perf_counter(), status, first, tokens)
        finally:
            writer.close()

    def _request(self, host: str, path: str, prompt: Sequence[int]) -> bytes:
        options = {"max_tokens": self.tokens, "top_p": self.top_p, "stream_options": {"include_usage": True}}
        body = json.dumps({"model": self.model, "prompt": list(prompt), "stream": True, **options}).encode()
        head = (
            f"POST {path}/completions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {self.token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        return head.encode() + body


async def closed(
    target: Target, prompts: Iterator[Sequence[int]], streams: int, again: Callable[[int], bool]
) -> list[Answer]:
    """Let `streams` clients ask, each again while `again` holds for the number of requests that it has sent."""
    answers = list[Answer]()

    async def client() -> None:
        count = 0
        while again(count):
            answers.append(await target.ask(next(prompts)))
            count += 1

    await asyncio.gather(*(client() for _ in range(streams)))
    return answers


async def opened(
    target: Target, prompts: Iterator[Sequence[int]], rate: float, *, seconds: float, patience: float
) -> list[Answer]:
    """Let new clients ask, `rate` a second, for `seconds`; each leaves after `patience` seconds."""
    began, asking = time.perf_counter(), list[asyncio.Task[Answer]]()
    while (now := time.perf_counter() - began) < seconds:
        for _ in range(int(now * rate) + 1 - len(asking)):
            asking.append(asyncio.ensure_future(target.ask(next(prompts), patience)))
        await asyncio.sleep(max(0.0, len(asking) / rate - now))
    return await asyncio.gather(*asking)


async def _until_blank(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a head."""
    while (line := await reader.readline()).strip():
        yield line
