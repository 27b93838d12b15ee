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
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.pairs import Pairs, alternate, median, timed
from benchmarks.peers import HOW, PYTHON
from benchmarks.program import ROOT, WentWrong, main, scratch
from benchmarks.table import Row, at_least, at_most, ratio_at_least, ratio_at_most
from tutti.corpus.bytepairs import LLAMA3_PATTERN, spelling
from tutti.corpus.tokenizer import EOS, BytePairTokenizer

QUICK, SMALL, LARGE = 20_000_000, 81_500_000, 911_000_000
VOCABULARY = 32_768
KINDS = (".py", ".md", ".rst", ".txt")
SPEED, MEMORY = at_least(15), at_most(600)
PEER = str(Path(__file__).with_name("tokenization_peer.py"))


def measure(quick: bool) -> list[Row]:
    """Training and encoding beside the peers, then everything together."""
    with scratch("tokenization") as folder:
        place = Path(folder)
        path = written(place / "texts", QUICK if quick else SMALL)
        rows = [*_training(path, place, 3 if quick else 5), _encoding(path, place, 3 if quick else 7)]
        rows += _whole(path, place / "small")
        if not quick:
            rows.append(_memory(written(place / "more", LARGE), place / "large"))
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


def _encoding(path: Path, place: Path, turns: int) -> Row:
    artefact = (place / "tokenizer.json").read_bytes()
    tokenizer = BytePairTokenizer(artefact)
    with path.open() as file:
        every = [json.loads(line)["text"] for line in file]
    arrays = [pa.array(every[at : at + 128], pa.large_string()) for at in range(0, len(every), 128)]
    size = sum(len(text.encode()) for text in every) / 1e6
    counts = [count for array in arrays for count in tokenizer.encode_texts(array)[1].tolist()]
    cost = timed(lambda: [tokenizer.encode_texts(array) for array in arrays], time.process_time)
    what = "encode"
    if not PYTHON.exists():
        return Row(what, unit="MB/s", ours=size / cost(), goal=ratio_at_least(1), note=HOW)
    vocabulary = json.loads(artefact)["model"]["vocab"]
    spelled = {character: byte for byte, character in enumerate(spelling())}
    tokens = sorted((token for token in vocabulary if token != EOS), key=vocabulary.__getitem__)
    (place / "tokens").write_text("\n".join(bytes(spelled[each] for each in token).hex() for token in tokens))
    command = [str(PYTHON), PEER, "encode", str(path), LLAMA3_PATTERN, str(place / "tokens")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        alike = sum(one == other for one, other in zip(counts, json.loads(peer.stdout.readline()), strict=True))

        def turn() -> float:
            print(file=peer.stdin, flush=True)
            return float(peer.stdout.readline())  # type: ignore[union-attr]

        found = alternate(cost, turn, pairs=turns)
        peer.stdin.close()
    return Row(
        what,
        unit="MB/s",
        ours=size / median(found.ours),
        peer=size / median(found.peer),
        ratio=found.speed(),
        goal=ratio_at_least(1),
        note=f"peer: tiktoken with the same tokens; {alike} of {len(every)} texts have as many ids in both",
    )


def _whole(path: Path, place: Path) -> list[Row]:
    done = _run(path, place)
    size = done["bytes"] / 1e6
    parts = ("ingest", "train", "encode", "baselines")
    shares = ", ".join(f"{part} {done[part]:.1f} s" for part in parts)
    packing = done["tokenization"] - done["baselines"]
    what = f"JSON lines to packed shards, {size:.0f} MB"
    return [
        Row(
            what,
            unit="MB/s",
            ours=size / (done["ingest"] + packing),
            goal=SPEED,
            note=f"{done['documents']} documents, {done['tokens'] / 1e6:.1f} M tokens; {shares}; without baselines, "
            "which do not grow with the text",
        ),
        Row(
            f"{what}: tokenization alone",
            unit="MB/s",
            ours=size / packing,
            goal=SPEED,
            note=f"document shards read three times; encode is {done['encode'] / packing:.0%} of it",
        ),
        _megabytes(done, f"{what}: memory"),
    ]


def _memory(path: Path, place: Path) -> Row:
    done = _run(path, place)
    return _megabytes(done, f"JSON lines to packed shards, {done['bytes'] / 1e6:.0f} MB: memory")


def _megabytes(done: Any, what: str) -> Row:
    note = f"after ingest it was {done['ingested']:.0f} MB"
    return Row(what, unit="MB", ours=done["megabytes"], goal=MEMORY, note=note)


def _run(path: Path, place: Path) -> Any:
    place.mkdir()
    done = _ours("all", path, place)
    if not done["tokens"]:
        raise WentWrong(f"no token came of {path}")
    return done


def _ours(how: str, path: Path, place: Path) -> Any:
    command = [sys.executable, "-m", "benchmarks.tokenization_run", how, str(path), str(place), str(VOCABULARY)]
    return _answer(*command)


if __name__ == "__main__":
    main("tokenization", __doc__, measure)
