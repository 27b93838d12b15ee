"""rustbpe and tiktoken over the texts of JSON lines: run by benchmarks/tokenization.py in the Python of the peers.

`train TEXTS PATTERN VOCABULARY` prints the seconds on the core that rustbpe took to learn, and how many megabytes more
were resident at once than before. `encode TEXTS PATTERN TOKENS` (tokens in hexadecimal, in the order of their ids)
prints how many ids tiktoken gives to each text; then, for every line read, the seconds on the core of encoding all.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import rustbpe
import tiktoken


def texts(path: str) -> Iterator[str]:
    with Path(path).open() as file:
        for line in file:
            yield json.loads(line)["text"]


def peak_megabytes() -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1000


def train(path: str, pattern: str, vocabulary: str) -> None:
    before, begun = peak_megabytes(), time.process_time()
    rustbpe.Tokenizer().train_from_iterator(texts(path), int(vocabulary), pattern=pattern)
    print(json.dumps({"train": time.process_time() - begun, "megabytes": peak_megabytes() - before}))


def encode(path: str, pattern: str, tokens: str) -> None:
    ranks = {bytes.fromhex(token): number for number, token in enumerate(Path(tokens).read_text().split())}
    encoding = tiktoken.Encoding("ours", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    every = list(texts(path))
    print(json.dumps([len(encoding.encode_ordinary(text)) for text in every]), flush=True)
    for _ in sys.stdin:
        begun = time.process_time()
        for text in every:
            encoding.encode_ordinary(text)
        print(time.process_time() - begun, flush=True)


{"train": train, "encode": encode}[sys.argv[1]](*sys.argv[2:])
