"""The language of sentences as files, made of the example site; see `tutti.judgements.sentences`.

The sentences are the first ones of the docstrings on the pages, so the base of recipes/first-light.yaml has read them.
Equal pages and arguments write equal bytes. No prompt is in two of the files, and no demonstration has a word of
unseen.jsonl.
"""

import argparse
import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from tools import exhibit

from tutti.corpus.conversations.conversations import Conversation, Message, Role, to_lines
from tutti.judgements import sentences

ROOT = Path(__file__).resolve().parents[1]
_DOCSTRING = re.compile(r'<dd><span class="code">(.*?)</span></dd>', re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_PLAIN = re.compile(r"[A-Z][A-Za-z' ,-]*\.")
_WORD = re.compile(rf"(?<![A-Za-z'-])[a-z]{{{sentences.LONG},}}(?![A-Za-z'-])")
DEMONSTRATED = 0.35
"""The share of the prompts that demonstrations may answer."""
UNSEEN, RARE = 0.04, 2
"""The share of the rare words, those of so few sentences, that no demonstration has."""
TRIES = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, nargs="?", default=Path("build/sentences"), help="the folder; %(default)s")
    parser.add_argument("--demonstrations", type=int, default=16000, help="%(default)s")
    parser.add_argument("--seed", type=int, default=0, help="%(default)s")
    given = parser.parse_args()
    try:
        pages = exhibit.build(ROOT / "build" / "exhibit").folder
    except exhibit.ExhibitError as error:
        parser.exit(1, f"{error}\n")
    write(given.out, pages, demonstrations=given.demonstrations, seed=given.seed)
    print(given.out)


def write(out: Path, pages: Path, *, demonstrations: int, seed: int = 0) -> None:
    """Write demonstrations.jsonl, prompts.jsonl and unseen.jsonl from a folder of the site's pages."""
    rng = np.random.default_rng(seed)
    read = first_sentences(pages)
    counts = Counter(word for each in read for word in words_of(each))
    rare = sorted(word for word, count in counts.items() if count <= RARE)
    unseen = set(_chosen(rare, round(UNSEEN * len(rare)), rng))
    lengths = range(sentences.FEWEST, sentences.MOST + 1)
    asked = _shuffled([(word, count) for word in sorted(counts) if word not in unseen for count in lengths], rng)
    shown = set(asked[: round(DEMONSTRATED * len(asked))])
    out.mkdir(parents=True, exist_ok=True)
    taught = [each for each in read if not unseen & set(words_of(each))]
    (out / "demonstrations.jsonl").write_bytes(to_lines(_demonstrations(taught, shown, demonstrations, rng)))
    (out / "prompts.jsonl").write_bytes(to_lines(map(_prompt, (each for each in asked if each not in shown))))
    others = [(word, count) for word in sorted(unseen) for count in lengths]
    (out / "unseen.jsonl").write_bytes(to_lines(map(_prompt, others)))


def first_sentences(pages: Path) -> list[str]:
    """The first sentence of each docstring, if it is plain and neither short nor long, once, in the order of pages."""
    found: dict[str, None] = {}
    for page in sorted(pages.glob("*.html")):
        for match in _DOCSTRING.finditer(page.read_text()):
            text = html.unescape(_TAG.sub("", match[1].replace("<br>", "\n"))).replace("\xa0", " ").strip()
            first = re.split(r"(?<=\.)\s", " ".join(text.split("\n\n")[0].split()))[0]
            if _PLAIN.fullmatch(first) and sentences.FEWEST <= len(first.split()) <= sentences.MOST:
                found[first] = None
    return list(found)


def words_of(sentence: str) -> list[str]:
    """The words of a sentence that a prompt can ask for, each once."""
    return sorted(set(_WORD.findall(sentence)))


def _demonstrations(
    read: Sequence[str], shown: set[tuple[str, int]], count: int, rng: np.random.Generator
) -> Iterator[Conversation]:
    """At most `count` demonstrations that answer prompts of `shown`."""
    others = sorted({word for word, _ in shown})
    for _ in range(count * TRIES):
        sentence = read[int(rng.integers(len(read)))]
        if not (words := words_of(sentence)):
            continue
        asked, answer = sentences.demonstration(sentence, words[int(rng.integers(len(words)))], others, rng)
        if asked in shown:
            count -= 1
            yield Conversation((*_prompt(asked).messages, Message(Role.ASSISTANT, answer)))
        if not count:
            return


def _prompt(asked: tuple[str, int]) -> Conversation:
    return Conversation((Message(Role.USER, sentences.prompt(*asked)),))


def _shuffled(asked: list[tuple[str, int]], rng: np.random.Generator) -> list[tuple[str, int]]:
    return [asked[at] for at in rng.permutation(len(asked))]


def _chosen(words: list[str], count: int, rng: np.random.Generator) -> list[str]:
    return [words[at] for at in rng.permutation(len(words))[:count]]


if __name__ == "__main__":
    main()
