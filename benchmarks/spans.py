"""The index of spans: built from token shards in a process of its own, then asked.

Tokens a second of one core, the disk that the index takes, peak resident memory beside what was allowed, and the time
of a query of 1,000 tokens with the index in the page cache. The data are 4 M and (not with --quick) 64 M tokens: Zipf's
law over a vocabulary of 32,768, in documents of about 700 tokens, of which a third begin with one of 20 lines of 60
tokens and one in twenty is a copy of another with one token changed. Such text repeats itself less than language does.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.pairs import median
from benchmarks.program import ROOT, WentWrong, main, scratch
from benchmarks.table import Row, at_least, at_most
from tutti.corpus.spans.index import Index
from tutti.corpus.tokens.tokenshard import TokenRun, encode_token_shard

SMALL, LARGE = 4_000_000, 64_000_000
MEMORY_BYTES = 128 << 20
BESIDE_MEGABYTES = 100
"""What Python, numpy and one mapped shard may take beside."""

VOCABULARY, EOS, CONTEXT = 32_768, 0, 1024
SEQUENCES = 1024
SPEED, MILLISECONDS = at_least(0.5), at_most(50)
MEMORY = at_most(MEMORY_BYTES / 1e6 + BESIDE_MEGABYTES)
Tokens = npt.NDArray[np.uint16]


def measure(quick: bool) -> list[Row]:
    """Speed, size, memory and queries for each size."""
    return [row for size in ((SMALL,) if quick else (SMALL, LARGE)) for row in _rows(size, 15 if quick else 51)]


def _rows(size: int, queries: int) -> list[Row]:
    source = np.random.default_rng(11)
    with scratch("spans") as folder:
        place = Path(folder)
        stream, starts = _stream(source, size)
        target = place / "index"
        shards = list(_shards(place, stream, starts))
        command = [sys.executable, "-m", "benchmarks.span_run", str(MEMORY_BYTES), str(target), *map(str, shards)]
        done = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
        index = Index.open(target)
        what = f"spans of {len(stream) / 1e6:.0f} M tokens"
        allowed = f"{MEMORY_BYTES >> 20} MiB for the sort, {len(shards)} shards"
        return [
            Row(
                f"{what}: build",
                unit="M tokens/s",
                ours=len(stream) / 1e6 / done["core"],
                goal=SPEED,
                note=f"{done['wall']:.1f} s on the wall, {done['core']:.1f} s on the core",
            ),
            Row(f"{what}: memory", unit="MB", ours=done["megabytes"], goal=MEMORY, note=allowed),
            Row(f"{what}: index", unit="bytes a token", ours=target.stat().st_size / len(stream)),
            _asked(
                f"{what}: 1,000 tokens, half of them copied", index, [_mixed(source, stream) for _ in range(queries)]
            ),
            _asked(f"{what}: 1,000 tokens of one document", index, [_copied(source, stream) for _ in range(queries)]),
        ]


def _asked(what: str, index: Index, queries: Sequence[tuple[Tokens, list[tuple[int, int]]]]) -> Row:
    """The time of queries, whose planted spans have to be found."""
    seconds, found = [], 0
    for query, planted in queries:
        tokens = query.tolist()
        began = time.process_time()
        spans = index.spans(tokens)
        seconds.append(time.process_time() - began)
        found += len(spans)
        for start, end in planted:
            if not any(span.start <= start and end <= span.end and span.examples for span in spans):
                raise WentWrong(f"the span {start} to {end} of a query is not among the {len(spans)} that were found")
    note = f"{len(queries)} queries, {found / len(queries):.1f} spans each"
    return Row(what, unit="ms", ours=1000 * median(seconds), goal=MILLISECONDS, note=note)


def _mixed(source: np.random.Generator, stream: Tokens) -> tuple[Tokens, list[tuple[int, int]]]:
    """Ten runs of 50 tokens of the stream, each behind 50 new ones."""
    parts, planted = [], []
    for number in range(10):
        fresh, run = _words(source, 50), _run(source, stream, 50)
        parts += [fresh, run]
        planted.append((100 * number + 50, 100 * number + 100))
    return np.concatenate(parts), planted


def _copied(source: np.random.Generator, stream: Tokens) -> tuple[Tokens, list[tuple[int, int]]]:
    return _run(source, stream, 1000), [(0, 1000)]


def _run(source: np.random.Generator, stream: Tokens, size: int) -> Tokens:
    """A run of the stream that lies in one document."""
    while True:
        at = int(source.integers(1, len(stream) - size))
        if not np.any((run := stream[at : at + size]) == EOS):
            return run


def _words(source: np.random.Generator, size: int) -> Tokens:
    """By Zipf's law: ranks whose logarithm is uniform."""
    return np.exp(source.uniform(0, np.log(VOCABULARY), size)).astype(np.uint16)


def _stream(source: np.random.Generator, size: int) -> tuple[Tokens, npt.NDArray[np.int64]]:
    """About `size` tokens, and where each document begins."""
    lines = [_words(source, 60) for _ in range(20)]
    pieces: list[Tokens] = [np.zeros(1, np.uint16)]
    starts, used = [], 1
    while used < size:
        kind = source.random()
        if kind < 0.05 and len(pieces) > 1:
            document = pieces[int(source.integers(1, len(pieces)))].copy()
            document[int(source.integers(len(document) - 1))] = 1 + int(source.integers(VOCABULARY - 1))
        else:
            own = _words(source, 20 + int(source.exponential(680)))
            begin = lines[int(source.integers(len(lines)))] if kind < 0.38 else own[:0]
            document = np.concatenate([begin, own, pieces[0][:1]])
        starts.append(used)
        pieces.append(document)
        used += len(document)
    starts[0] = 0
    return np.concatenate(pieces), np.array(starts)


def _shards(folder: Path, stream: Tokens, starts: npt.NDArray[np.int64]) -> Iterator[Path]:
    """The stream in token shards, the last sequence padded."""
    sequences = -(-(len(stream) - 1) // CONTEXT)
    padded: npt.NDArray[Any] = np.append(stream, np.zeros(sequences * CONTEXT + 1 - len(stream), np.uint16))
    for first in range(0, sequences, SEQUENCES):
        begin, end = first * CONTEXT, min(first + SEQUENCES, sequences) * CONTEXT + 1
        used = min(end, len(stream)) - begin
        low, high = int(np.searchsorted(starts, begin, side="right")) - 1, int(np.searchsorted(starts, begin + used))
        run = TokenRun(
            tokens=padded[begin:end],
            tokens_used=used,
            starts=np.maximum(starts[low:high] - begin, 0),
            doc_ids=[f"{document:064x}" for document in range(low, high)],
            context=CONTEXT,
            vocabulary=VOCABULARY,
            eos=EOS,
            first_sample=first,
        )
        path = folder / f"{first:08}.tokens"
        path.write_bytes(encode_token_shard(run)[0])
        yield path


if __name__ == "__main__":
    main("spans", __doc__, measure)
