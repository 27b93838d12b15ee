"""Answers over HTTP beside `generate` of transformers, and beyond saturation: `make bench-serve`.

A checkpoint of random weights is served as `tutti serve` does, once in exact mode and once in fast mode, each on a
platform of its own; streamed completions are asked for. Ours is tokens a CPU second of all processes of the platform:
HTTP, router, journal, records and limits as well as the replica. The peer is `generate` alone, in a process of its own,
with the same weights: it reads and continues as many prompts together as there are streams. Both draw at temperature 1,
and no prompt comes twice. The replica has the 32 slots of the default, so of 64 streams half wait.

Then new clients ask without waiting for others, at three times the highest rate that was reached, and leave after twice
the time that an answer takes at that rate. Goodput is the rate of answers that were whole by then. A refusal is as it
should be if it has the status 429 or 503 and says when to try again.
"""

import asyncio
import contextlib
import functools
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np

from benchmarks.pairs import Pairs, alternate, median, percentile
from benchmarks.platforms import Platform, core_seconds, up
from benchmarks.program import WentWrong, main, scratch
from benchmarks.serve_load import Answer, Target, closed, opened
from benchmarks.table import Row, at_least, ratio_at_least
from tutti.corpus.conversations.template import CHAT_1
from tutti.inference import huggingface
from tutti.model.chunks import Layout
from tutti.model.initial import initial_parameters
from tutti.model.spec import ModelSpec
from tutti.tokenization.bpe import train_bpe

TUTTI = Path(sys.executable).with_name("tutti")
STREAMS, LEAST_REQUESTS = (1, 8, 32, 64), 2
PROMPT, TOKENS, CONTEXT = 32, 32, 256
SAMPLED = {"plain": 1.0, "top_p .95": 0.95}
SETTINGS = """[access]
answers_per_minute = 1_000_000
answer_tokens_per_minute = 1_000_000_000
concurrent_answers = 10_000
[chat]
mode = "{mode}"
"""
"""Without the limits of one token, since one token stands for the clients of many."""
TIMES, PATIENCE, GOODPUT = 3, 2.0, 0.9


@dataclass(frozen=True)
class Served:
    """A deployment on a platform of its own; `prompts` are ids, each prompt another one."""

    platform: Platform
    target: Target
    prompts: Iterator[list[int]]

    def turn(self, streams: int, top_p: float, answers: list[Answer]) -> float:
        """CPU seconds a token of a turn, whose answers are added to `answers`. Raises WentWrong."""
        target, pid = replace(self.target, top_p=top_p), self.platform.process.pid
        before = core_seconds(pid)
        found = asyncio.run(closed(target, self.prompts, streams, lambda count: count < requests_of(streams)))
        spent = core_seconds(pid) - before
        if wrong := [each for each in found if not each.whole]:
            raise WentWrong(f"{len(wrong)} of {len(found)} answers were not whole, such as {wrong[0]}")
        answers += found
        return spent / sum(each.tokens for each in found)


class Peer:
    """`generate` in a process of its own."""

    def __init__(self, folder: Path, prompts: Iterator[list[int]]) -> None:
        command = [sys.executable, str(Path(__file__).with_name("serve_peer.py")), str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._prompts = prompts

    def turn(self, streams: int, top_p: float) -> float:
        """CPU seconds a token, of as many requests as ours gets. Raises WentWrong."""
        found = [self._batch(streams, top_p) for _ in range(requests_of(streams))]
        return sum(each["seconds"] for each in found) / sum(each["tokens"] for each in found)

    def _batch(self, streams: int, top_p: float) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        prompts = [next(self._prompts) for _ in range(streams)]
        print(json.dumps({"prompts": prompts, "tokens": TOKENS, "top_p": top_p}), file=self._process.stdin, flush=True)
        if not (line := self._process.stdout.readline()):
            raise WentWrong(f"the peer ended with {self._process.wait()}")
        found: dict[str, float] = json.loads(line)
        return found

    def close(self) -> None:
        self._process.communicate()


def requests_of(streams: int) -> int:
    """The number of requests of each stream in a turn: few streams ask more often."""
    return max(1, LEAST_REQUESTS // streams)


def measure(quick: bool) -> list[Row]:
    """Rows of tokens, of first tokens, and of goodput."""
    tokenizer = train_bpe([text for _, text in sorted(topics.items())][:20], vocabulary=2048, reserved=CHAT_1.tokens)
    layout = Layout(
        ModelSpec(
            vocabulary=tokenizer.vocabulary, width=256, layers=6, heads=4, kv_heads=4, hidden=704, context=CONTEXT
        )
    )
    vector = np.concatenate([initial_parameters(layout, chunk, 1) for chunk in layout.chunks])
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(scratch("serve")))
        huggingface.write(huggingface.Exported(layout, vector, tokenizer, CHAT_1), place / "model")
        prompts = prompts_of(tokenizer.vocabulary)
        peer = stack.enter_context(contextlib.closing(Peer(place / "model", prompts)))
        modes = {mode: stack.enter_context(serving(place, mode, prompts)) for mode in ("exact", "fast")}
        note = (
            f"{layout.elements:,} parameters, {TOKENS} tokens after prompts of {PROMPT}, context {CONTEXT}; "
            f"pairs of turns: {1 if quick else 3}"
        )
        for served in modes.values():  # a first answer finds caches empty
            served.turn(1, 1.0, [])
        peer.turn(1, 1.0)
        rows = list[Row]()
        for mode, served in modes.items():
            rows += speeds(mode, served, peer, pairs=1 if quick else 3, note=note)
        return [*rows, *overload(modes["exact"], quick=quick)]


def prompts_of(vocabulary: int) -> Iterator[list[int]]:
    """Prompts of random ids without the special ones, which come first."""
    source = np.random.default_rng(0)
    while True:
        yield source.integers(300, vocabulary, PROMPT).tolist()


@contextlib.contextmanager
def serving(place: Path, mode: str, prompts: Iterator[list[int]]) -> Iterator[Served]:
    """A platform that serves the model of the folder `model`."""
    data = place / mode
    data.mkdir(mode=0o700)
    (data / "tutti.toml").write_text(SETTINGS.format(mode=mode))
    with up(data) as platform:
        checkpoint = asked(data, "checkpoints", "import", str(place / "model"))["checkpoint"]
        context = ("--context", str(CONTEXT))
        told = asked(data, "serve", checkpoint, "--name", mode, "--experimental", "--detach", *context)
        shown = asked(data, "deployments", "show", told["deployment"])
        if bool(shown["exact"]) != (mode == "exact"):
            raise WentWrong(f"the deployment should serve in {mode} mode, and does not")
        token = asked(data, "token", "create", "--role", "client", "--days", "1")["token"]
        yield Served(platform, Target(told["base_url"], told["model"], token, TOKENS, 1.0), prompts)


def asked(data: Path, *arguments: str) -> Any:
    """What a command prints as JSON. Raises WentWrong."""
    command = [str(TUTTI), *arguments, "-o", "json", "--data-dir", str(data)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        raise WentWrong(f"tutti {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def speeds(mode: str, served: Served, peer: Peer, *, pairs: int, note: str) -> Iterator[Row]:
    """Tokens a CPU second beside the peer, and the time to the first token; all streams of a turn begin at once."""
    for sampled, top_p in SAMPLED.items():
        firsts = list[Row]()
        for streams in STREAMS:
            answers = list[Answer]()
            found = alternate(
                functools.partial(served.turn, streams, top_p, answers),
                functools.partial(peer.turn, streams, top_p),
                pairs=pairs,
                warmups=0,
            )
            what = f"{mode}, {sampled}, streams: {streams}"
            yield Row.of_speed(what, unit="tokens/CPU s", amount=1, pairs=found, note=note if streams == 1 else "")
            seconds = [1000 * (each.first - each.begun) for each in answers]
            for name, percent in (("median", 50), ("p95", 95)):
                firsts.append(Row(f"first token, {what}: {name}", unit="ms", ours=percentile(seconds, percent)))
        if sampled == "plain":
            yield from firsts


def overload(served: Served, *, quick: bool) -> list[Row]:
    """The highest rate of answers, and goodput at three times that rate, in turns."""
    window, turns = (5.0, 1) if quick else (8.0, 3)
    peaks, goods, answers, patience = list[float](), list[float](), list[Answer](), 0.0
    for _ in range(turns):
        peaks.append(max(peak(served, streams, window) for streams in STREAMS[-2:]))
        patience = PATIENCE * STREAMS[-1] / peaks[-1]
        found, good = beyond(served, TIMES * peaks[-1], window, patience)
        goods.append(good)
        answers += found
    refused, late = [each for each in answers if each.status not in (0, 200)], sum(not each.status for each in answers)
    told = [each for each in refused if each.status in (429, 503) and each.is_told]
    waited = percentile([1000 * (each.ended - each.begun) for each in refused], 95) if refused else 0.0
    pairs = Pairs(tuple(1 / max(each, 1e-9) for each in goods), tuple(1 / each for each in peaks))
    return [
        Row(
            f"goodput at {TIMES} x saturation; peer: the peak",
            unit="answers/s",
            ours=median(goods),
            peer=median(peaks),
            ratio=pairs.speed(),
            goal=ratio_at_least(GOODPUT),
            note=f"exact, plain; turns of {window:g} s: {turns}; {len(answers)} requests, {len(refused)} refused, 95 % "
            f"of them within {waited:.0f} ms; {late} clients left, after {patience:.1f} s",
        ),
        Row(
            "refusals with 429 or 503 that say when to try again",
            unit="%",
            ours=100 * len(told) / len(refused) if refused else None,
            goal=at_least(100),
        ),
    ]


def peak(served: Served, streams: int, window: float) -> float:
    """Answers a second of clients that ask again at once, after a second in which they begin."""
    begun = time.perf_counter() + 1
    answers = asyncio.run(
        closed(served.target, served.prompts, streams, lambda _: time.perf_counter() < begun + window)
    )
    return rate_of(answers, begun, window)


def beyond(served: Served, rate: float, window: float, patience: float) -> tuple[list[Answer], float]:
    """The answers to clients that ask at a rate, and how many a second were whole once queues are as long as ever."""
    begun = time.perf_counter() + patience
    work = opened(served.target, served.prompts, rate, seconds=patience + window, patience=patience)
    answers = asyncio.run(work)
    return answers, rate_of(answers, begun, window)


def rate_of(answers: Sequence[Answer], begun: float, window: float) -> float:
    """Whole answers a second of those that ended in a window."""
    return sum(each.whole and begun <= each.ended < begun + window for each in answers) / window


if __name__ == "__main__":
    main("serve", __doc__, measure)
