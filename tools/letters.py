"""The language of letters as files: texts, demonstrations and prompts; see `tutti.judgements.letters`.

Equal arguments write equal bytes. No prompt is in two of the files.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tutti.corpus.conversations.conversations import Conversation, Message, Role, to_lines
from tutti.judgements import letters
from tutti.records.canonical import canonical_json

EXCHANGES = 24
"""Prompts with their answers in one text."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, nargs="?", default=Path("build/letters"), help="the folder; %(default)s")
    parser.add_argument("--texts", type=int, default=300, help="documents to pretrain on; %(default)s")
    parser.add_argument("--demonstrations", type=int, default=16000, help="%(default)s")
    parser.add_argument("--prompts", type=int, default=16000, help="%(default)s")
    parser.add_argument("--seed", type=int, default=0, help="%(default)s")
    given = parser.parse_args()
    write(given.out, texts=given.texts, demonstrations=given.demonstrations, prompts=given.prompts, seed=given.seed)
    print(given.out)


def write(out: Path, *, texts: int, demonstrations: int, prompts: int, seed: int = 0) -> None:
    """Write texts.jsonl, demonstrations.jsonl and prompts.jsonl."""
    rng = np.random.default_rng(seed)
    every = _prompts(rng)
    out.mkdir(parents=True, exist_ok=True)
    lines = [canonical_json({"text": _text([next(every) for _ in range(EXCHANGES)], rng)}) for _ in range(texts)]
    (out / "texts.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    shown = [next(every) for _ in range(demonstrations)]
    (out / "demonstrations.jsonl").write_bytes(
        to_lines(
            Conversation((Message(Role.USER, asked), Message(Role.ASSISTANT, letters.demonstration(asked, rng))))
            for asked in shown
        )
    )
    asked = [next(every) for _ in range(prompts)]
    (out / "prompts.jsonl").write_bytes(to_lines(Conversation((Message(Role.USER, each),)) for each in asked))


def _prompts(rng: np.random.Generator) -> Iterator[str]:
    """Random prompts, each once."""
    seen: set[str] = set()
    while True:
        found = letters.prompt(rng)
        if found not in seen:
            seen.add(found)
            yield found


def _text(prompts: list[str], rng: np.random.Generator) -> str:
    return "\n".join(f"{asked}\n{letters.demonstration(asked, rng)}" for asked in prompts)


if __name__ == "__main__":
    main()
