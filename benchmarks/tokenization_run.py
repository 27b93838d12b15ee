"""Tokenization in a process of its own.

`python -m benchmarks.tokenization_run train|all JSONL SCRATCH VOCABULARY [TOKENIZER]`. Promises: prints as JSON the
seconds on the core of each part, and the most megabytes that were resident at once: with `train` how many more than
before. What is measured is what the services run, with clocks at its seams.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.resident import peak_megabytes
from tutti.corpus.tokens.bytepairs import native
from tutti.corpus.tokens.dataset import Packing
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.ingest.reading.shards import MAX_FILE_BYTES, Reading, write_shards
from tutti.tokenization import making
from tutti.tokenization.bpe import trained

BATCH = 8
SECONDS = dict[str, float]()


def metered(what: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """The same, and the seconds of it added up."""

    def run(*given: Any, **named: Any) -> Any:
        begun = time.process_time()
        try:
            return work(*given, **named)
        finally:
            SECONDS[what] = SECONDS.get(what, 0.0) + time.process_time() - begun

    return run


def batches(path: Path) -> Iterator[pa.Array]:
    """The texts of JSON lines."""
    held: list[str] = []
    with path.open() as file:
        for line in file:
            held.append(json.loads(line)["text"])
            if len(held) == BATCH:
                yield pa.array(held, pa.large_string())
                held = []
    yield pa.array(held, pa.large_string())


def train(path: Path, scratch: Path, vocabulary: int) -> dict[str, Any]:
    """A tokenizer; reading the texts counts, as it does for the peer."""
    native()
    before = peak_megabytes()
    tokenizer = metered("train", trained)(batches(path), vocabulary=vocabulary)
    (scratch / "tokenizer.json").write_bytes(tokenizer.artefact)
    return {**SECONDS, "megabytes": peak_megabytes() - before}


def whole(path: Path, scratch: Path, vocabulary: int, *tokenizer: Path) -> dict[str, Any]:
    """JSON lines to packed token shards: all that ingest and tokenization do, by one worker."""
    for what, name in (("train", "trained"), ("baselines", "_measured")):
        setattr(making, name, metered(what, getattr(making, name)))
    BytePairTokenizer.encode_texts = metered("encode", BytePairTokenizer.encode_texts)  # type: ignore[method-assign]
    reading = Reading(path.parent, MAX_FILE_BYTES, limit=0)
    written = metered("ingest", write_shards)(reading, scratch)
    ingested = peak_megabytes()
    wanted = making.Making(
        shards=tuple(shard.path for shard in written.shards),
        dropped=frozenset(),
        vocabulary=vocabulary,
        pattern="",
        context=1024,
        validation_fraction=0.01,
        seed=0,
        shard_sequences=0,
        scratch=scratch,
        packing=Packing.BEST_FIT,
        tokenizer=BytePairTokenizer(tokenizer[0].read_bytes()) if tokenizer else None,
    )
    made = metered("tokenization", making.make)(wanted)
    return {
        **SECONDS,
        "megabytes": peak_megabytes(),
        "ingested": ingested,
        "bytes": made.train.text_bytes + made.validation.text_bytes,
        "tokens": made.train.targets + made.validation.targets,
        "documents": made.train.documents + made.validation.documents,
    }


def main() -> None:
    how, path, scratch, vocabulary, *tokenizer = sys.argv[1:]
    done = {"train": train, "all": whole}[how](Path(path), Path(scratch), int(vocabulary), *map(Path, tokenizer))
    print(json.dumps(done))


if __name__ == "__main__":
    main()
