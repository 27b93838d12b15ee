"""Tokenization: a tokenizer of 32,768 tokens trained, texts encoded, JSON lines made packed token shards.

Beside it rustbpe, which learns the same pattern, and tiktoken, which encodes with the tokens that ours learned; both
from the dependency group `peers`. The texts are code and documentation of the Python at hand (again under another first
line, where that is too little): 20 MB with --quick, else 81 MB, and 911 MB for memory. All is time on the core, of one
worker; training and memory are measured in processes of their own.
"""

import json
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.pairs import Pairs, alternate, median, timed
from benchmarks.peers import HOW, PYTHON
from benchmarks.program import ROOT, WentWrong, main, scratch
from benchmarks.resident import memory_row, nothing, peak_megabytes, peak_of
from benchmarks.table import Row, at_least, at_most, ratio_at_least, ratio_at_most
from tutti.corpus.tokens.bytepairs import LLAMA3_PATTERN, spelling
from tutti.corpus.tokens.tokenizer import EOS, BytePairTokenizer

QUICK, SMALL, LARGE = 20_000_000, 81_500_000, 911_000_000
VOCABULARY = 32_768
KINDS = (".py", ".md", ".rst", ".txt")
SPEED, MEMORY = at_least(15), at_most(600)
SHARE, SHARE_IS = ratio_at_least(15 / 21), "15 MB/s were asked for where that did 21"
PEER = str(Path(__file__).with_name("tokenization_peer.py"))


def measure(quick: bool) -> list[Row]:
    """Training and encoding beside the peers, then everything together."""
    with scratch("tokenization") as folder:
        place = Path(folder)
        path = written(place / "texts", QUICK if quick else SMALL)
        rows = _training(path, place, 3 if quick else 5)
        with _tiktoken(path, place) as peer:
            rows += [*_encoding(path, place, peer, 3 if quick else 7), *_whole(path, place, peer, 3 if quick else 5)]
        if not quick:
            rows.append(_memory(written(place / "more", LARGE), place))
    return rows


def texts() -> Iterator[str]:
    """Code and documentation, without an end."""
    places = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")]
    paths = [path for place in places for path in sorted(place.rglob("*")) if path.suffix in KINDS and path.is_file()]
    for turn in count():
        for path in paths:
            text = path.read_bytes()[:200_000].decode("utf-8", "ignore")
            if len(text) > 100:
                yield f"{turn}\n{text}" if turn else text


def written(folder: Path, size: int) -> Path:
    """So many bytes of text as JSON lines."""
    folder.mkdir()
    with (folder / "texts.jsonl").open("w") as file:
        for text in texts():
            file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
            if file.tell() > size:
                return folder / "texts.jsonl"
    raise AssertionError("texts have no end")


def _answer(*command: str) -> Any:
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _training(path: Path, place: Path, turns: int) -> list[Row]:
    ours, theirs = [], []
    for _ in range(turns):
        ours.append(_ours("train", path, place))
        if PYTHON.exists():
            theirs.append(_answer(str(PYTHON), PEER, "train", str(path), LLAMA3_PATTERN, str(VOCABULARY - 1)))
    what = f"BPE of {VOCABULARY:,} tokens from {path.stat().st_size / 1e6:.0f} MB"
    note = "peer: rustbpe, the same pattern; reading JSON lines counts" if theirs else HOW
    rows = []
    for name, unit, goal, key in (
        ("", "s", ratio_at_most(1), "train"),
        (": memory", "MB", ratio_at_most(0.5), "megabytes"),
    ):
        mine = [each[key] for each in ours]
        peer = [each[key] for each in theirs]
        ratio = Pairs(tuple(mine), tuple(peer)).cost() if peer else None
        rows.append(
            Row(
                what + name,
                unit=unit,
                ours=median(mine),
                peer=median(peer) if peer else None,
                ratio=ratio,
                goal=goal,
                note=note,
            )
        )
    return rows


@dataclass(frozen=True)
class _Peer:
    """tiktoken with the tokens that ours learned, in a process of its own: `counts` ids in each text."""

    counts: list[int]
    encode: Callable[[], float]
    """Encodes all texts; the seconds of it on the core."""
    process: int


@contextmanager
def _tiktoken(path: Path, place: Path) -> Iterator[_Peer | None]:
    """The peer while it lives; None where it is not installed."""
    if not PYTHON.exists():
        yield None
        return
    vocabulary = json.loads((place / "tokenizer.json").read_bytes())["model"]["vocab"]
    spelled = {character: byte for byte, character in enumerate(spelling())}
    tokens = sorted((token for token in vocabulary if token != EOS), key=vocabulary.__getitem__)
    (place / "tokens").write_text("\n".join(bytes(spelled[each] for each in token).hex() for token in tokens))
    command = [str(PYTHON), PEER, "encode", str(path), LLAMA3_PATTERN, str(place / "tokens")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
        asked, told = peer.stdin, peer.stdout
        assert asked is not None
        assert told is not None

        def turn() -> float:
            print(file=asked, flush=True)
            return float(told.readline())

        yield _Peer(json.loads(told.readline()), turn, peer.pid)
        asked.close()


def _held(path: Path) -> tuple[list[str], list[pa.Array]]:
    """All texts, and in batches."""
    with path.open() as file:
        every = [json.loads(line)["text"] for line in file]
    return every, [pa.array(every[at : at + 128], pa.large_string()) for at in range(0, len(every), 128)]


def _encoded(path: Path, place: Path) -> None:
    tokenizer = BytePairTokenizer((place / "tokenizer.json").read_bytes())
    for array in _held(path)[1]:
        tokenizer.encode_texts(array)


def _encoding(path: Path, place: Path, peer: _Peer | None, turns: int) -> list[Row]:
    tokenizer = BytePairTokenizer((place / "tokenizer.json").read_bytes())
    every, arrays = _held(path)
    size = sum(len(text.encode()) for text in every) / 1e6
    counts = [count for array in arrays for count in tokenizer.encode_texts(array)[1].tolist()]
    cost = timed(lambda: [tokenizer.encode_texts(array) for array in arrays], time.process_time)
    what = "encode"
    if peer is None:
        return [Row(what, unit="MB/s", ours=size / cost(), goal=ratio_at_least(1), note=HOW)]
    alike = sum(one == other for one, other in zip(counts, peer.counts, strict=True))
    found = alternate(cost, peer.encode, pairs=turns)
    note = f"both hold all texts; {peak_of(nothing):.0f} MB of ours are what is loaded"
    return [
        Row.of_speed(
            what,
            unit="MB/s",
            amount=size,
            pairs=found,
            goal=ratio_at_least(1),
            note=f"peer: tiktoken with the same tokens; {alike} of {len(every)} texts have as many ids in both",
        ),
        memory_row(what, [peak_of(_encoded, path, place)], [peak_megabytes(peer.process)], note),
    ]


def _whole(path: Path, place: Path, peer: _Peer | None, turns: int) -> list[Row]:
    runs, theirs = [], []
    for turn in range(turns):
        runs.append(whole(path, place / f"whole-{turn}", place / "tokenizer.json"))
        if peer:
            theirs.append(peer.encode())
    size = runs[0]["bytes"] / 1e6
    packing = [done["tokenization"] - done["baselines"] for done in runs]
    both = [done["ingest"] + each for done, each in zip(runs, packing, strict=True)]
    encode = median([done["encode"] / each for done, each in zip(runs, both, strict=True)])
    what = f"JSON lines to packed shards, {size:.0f} MB"
    return [
        Row(
            what,
            unit="MB/s",
            ours=size / median(both),
            goal=SPEED,
            note=f"{runs[0]['documents']} documents, {runs[0]['tokens'] / 1e6:.1f} M tokens; with all that ingest "
            f"measures, by a tokenizer that is there; without baselines, which do not grow with the text "
            f"({runs[0]['baselines']:.1f} s); encode is {encode:.0%} of it",
        ),
        Row(
            f"{what}, beside encoding alone",
            unit="MB/s",
            ours=size / median(both),
            peer=size / median(theirs) if peer else None,
            ratio=Pairs(tuple(both), tuple(theirs)).speed() if peer else None,
            goal=SHARE,
            note=f"peer: tiktoken encodes and does nothing else; {SHARE_IS}" if peer else HOW,
        ),
        Row(
            f"{what}, with baselines",
            unit="MB/s",
            ours=size / median([done["ingest"] + done["tokenization"] for done in runs]),
            note="unigram, Kneser-Ney bigram and xz of the held-out text besides",
        ),
        Row(
            f"{what}: tokenization alone",
            unit="MB/s",
            ours=size / median(packing),
            note=f"document shards read, and packed token shards written; encode is "
            f"{median([done['encode'] / each for done, each in zip(runs, packing, strict=True)]):.0%} of it",
        ),
        _megabytes(whole(path, place / "untrained"), f"{what}, and a tokenizer of them: memory"),
    ]


def _memory(path: Path, place: Path) -> Row:
    done = whole(path, place / "large")
    return _megabytes(
        done, f"JSON lines to packed shards, {done['bytes'] / 1e6:.0f} MB, and a tokenizer of them: memory"
    )


def _megabytes(done: Any, what: str) -> Row:
    note = f"after ingest it was {done['ingested']:.0f} MB"
    return Row(what, unit="MB", ours=done["megabytes"], goal=MEMORY, note=note)


def whole(path: Path, place: Path, tokenizer: Path | None = None) -> Any:
    """With a tokenizer, or with one that is trained on the texts."""
    place.mkdir()
    done = _ours("all", path, place, *([tokenizer] if tokenizer else []))
    if not done["tokens"]:
        raise WentWrong(f"no token came of {path}")
    return done


def _ours(how: str, path: Path, place: Path, *tokenizer: Path) -> Any:
    given = (how, path, place, VOCABULARY, *tokenizer)
    return _answer(sys.executable, "-m", "benchmarks.tokenization_run", *map(str, given))


if __name__ == "__main__":
    main("tokenization", __doc__, measure)
