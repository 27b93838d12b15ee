"""One kernel with inputs by number; started by tools/sanitize.py."""

import os
import random
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

BATCH = 16
"""Texts in a call that takes many."""
FRAGMENTS = (
    "<p>", "</p>", "<div class='side bar'>", "<", ">", "</", "<!--", "-->", "<![CDATA[", "]]>", "<script>", "</script>",
    "<a href=", "&amp;", "&#0;", "&#x110000;", "<table><tr><td>", "<title>", "<article", "='", '="', "<x " + "a " * 40,
    "the ", "Cat ", "A", "é", "e\u0301", "\u0344", "\uac00", "\u1100\u1161", "ß", "\U0001f600", "\U0001f468\u200d",
    "\u202e", "\u0000", "\u0007", "\t", "\n", "\n\n", "\r\n", " ", "\u00a0", "\u2028", "1", "\uff11", "²",
    "4111 1111 1111 1111", "a@b.example", "+49 30 123456", "192.0.2.1", "DE89 3704 0044 0532 0130 00", ".", "!", "?",
    "…", "- ", "* ", "{}", "\\", "\ud7ff", "\ue000", "\uffff", "\U0010ffff", "'", "'ll", "_", "漢字", "한글", "שלום",
)  # fmt: skip
MARKUP = (
    "<math>", "</math>", "<semantics>", "<annotation encoding=application/x-tex>", "</annotation>", "<math alttext=<<>",
    "<script type=math/tex>", "&&&&", "<span class=MathJax>", "</span>", "<sup>", "</sup>", "<sup><a href=x>", "</a>",
    "<div hidden>", "<p style='display:none'>", "</div>", "<nobr aria-hidden=true>", "</nobr>", "<h1>", "<h2><a>",
    "<aside id=mySidebar>", "<nav>", "</nav>", "<button>", "<li class='has-comments bio'>", "the old mill " * 6,
)  # fmt: skip
Call = Callable[[random.Random], int]
"""Gives a kernel some inputs, and returns how many."""


def text(source: random.Random) -> str:
    """Return a text of fragments and characters, at times long or of one kind alone."""
    kinds = source.choice([FRAGMENTS, FRAGMENTS[:24], source.sample(FRAGMENTS, 3), ["a"], [" ", "a"]])
    found = "".join(source.choices(kinds, k=source.choice([0, 1, 2, 3, 8, 30, 120])))
    if source.random() < 0.2:
        found += "".join(
            chr(source.choice([source.randrange(0xD800), source.randrange(0xE000, 0x110000)])) for _ in "ab"
        )
    if source.random() < 0.01:
        found *= source.choice([50, 400])
    return found


def octets(source: random.Random) -> bytes:
    """Return bytes that are UTF-8 or a text that was cut, overwritten or drawn by chance."""
    found = bytearray(text(source).encode())
    for _ in range(source.choice([0, 0, 1, 3, 20])):
        if found:
            found[source.randrange(len(found))] = source.randrange(256)
    return bytes(found[: source.randrange(len(found) + 1)]) if source.random() < 0.3 else bytes(found)


def texts(source: random.Random) -> pa.Array:
    """Return a string array, at times a slice of a longer one, whose texts do not begin at 0."""
    found = pa.array([text(source) for _ in range(BATCH + 2)], pa.string())
    return found[1:-1] if source.random() < 0.5 else found[:BATCH]


def _markup(source: random.Random) -> int:
    from tutti.ingest.reading.markup import rewritten
    from tutti.ingest.reading.markupkinds import Mode

    page = text(source).encode()
    if source.random() < 0.7:
        page = "".join(source.choices(FRAGMENTS + MARKUP, k=source.choice([3, 10, 40, 200]))).encode()
    for mode in Mode:
        rewritten(page, mode)
    return 1


def _pii(source: random.Random) -> int:
    from tutti.ingest.quality.pii import inspect

    return len(inspect(texts(source))[0])


def _features(source: random.Random) -> int:
    from tutti.corpus.quality.features import having, names, sums

    given = texts(source)
    sums(given, _weights())
    wanted = np.unique(names(given[0].as_py()))
    having(given, wanted[wanted != 0][:64])
    return len(given)


@cache
def _weights() -> np.ndarray:
    return np.random.default_rng(0).integers(-(2**15), 2**15, (2**12, 3), np.int16)


def _languagemodel(source: random.Random) -> int:
    from tutti.ingest.quality.languagemodel import score

    given = [octets(source) for _ in range(BATCH)]
    score(given)
    return len(given)


def _normalisation(source: random.Random) -> int:
    from tutti.ingest.encoding.normalisation import normalised

    normalised(text(source).encode())
    return 1


def _census(source: random.Random) -> int:
    from tutti.ingest.encoding.census import controls

    controls(octets(source))
    return 1


def _units(source: random.Random) -> int:
    from tutti.dedup.units import Unit, units

    given = texts(source)
    for unit in Unit:
        units(given, unit, source.choice([1, 2, 50]))
    return len(given)


def _minhash(source: random.Random) -> int:
    from tutti.dedup.minhash import bands
    from tutti.dedup.verification import overlaps, sets

    given = texts(source)
    bands(given)
    members, offsets = sets(given)
    pairs = np.array([(source.randrange(len(given)), source.randrange(len(given))) for _ in range(BATCH)], np.int64)
    overlaps(members, offsets, pairs[:, 0], pairs[:, 1])
    return len(given)


def _bpe(source: random.Random) -> int:
    from tutti.corpus.tokens.bytepairs import Encoder, Words, native

    library = native().library
    assert library is not None
    words, given = Words(library), texts(source)
    words.add(given)
    merges = words.learn(vocabulary=256 + source.choice([0, 1, 60]), least=source.choice([1, 2]))
    Encoder(library, merges).encode(texts(source))
    return 2 * len(given)


def _statistics(source: random.Random) -> int:
    from tutti.corpus.counts.statistics import statistics

    return len(statistics(texts(source)))


def _gather(source: random.Random) -> int:
    from tutti.corpus.documents.documents import document_id
    from tutti.corpus.tokens.loader import Loader
    from tutti.corpus.tokens.tokenshard import TokenRun, encode_token_shard

    context, sequences = source.randrange(1, 40), source.randrange(1, 7)
    total = sequences * context + 1
    used = total - source.randrange(min(context, total - 1))
    starts = sorted({0, *(source.randrange(used) for _ in range(source.randrange(6)))})
    run = TokenRun(
        tokens=np.array([source.randrange(300) for _ in range(total)]),
        tokens_used=used,
        starts=np.array(starts),
        doc_ids=[document_id(source=str(each), text="") for each in starts],
        context=context,
        vocabulary=source.choice([300, 70_000]),
        eos=0,
        first_sample=0,
        lengths=None,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "0.tokens"
        path.write_bytes(encode_token_shard(run)[0])
        loader = Loader([path])
        for _ in range(BATCH):
            loader.batch([source.randrange(loader.sequences) for _ in range(source.randrange(1, 9))])
    return BATCH


KERNELS: dict[str, Call] = {
    "bpe": _bpe,
    "census": _census,
    "features": _features,
    "gather": _gather,
    "languagemodel": _languagemodel,
    "markup": _markup,
    "minhash": _minhash,
    "normalisation": _normalisation,
    "pii": _pii,
    "statistics": _statistics,
    "units": _units,
}
"""By the name of the C file."""


def main(name: str, seed: int, inputs: int, at: Path) -> None:
    """Call a kernel with inputs; the file `at` contains the number of the current call."""
    call, done, number = KERNELS[name], 0, 0
    with open(at, "wb", buffering=0) as place:
        while done < inputs:
            os.pwrite(place.fileno(), b"%d" % number, 0)
            try:
                done += call(random.Random(f"{name} {seed} {number}"))
            except Exception as error:
                sys.exit(f"{name}, seed {seed}, call {number}: {type(error).__name__}: {error}")
            number += 1
    loaded = Path("/proc/self/maps").read_text()
    if f"/{name}-" not in loaded or "libasan" not in loaded:
        sys.exit(f"{name}: the kernel was not compiled with the sanitizers; its twin in Python ran instead")
    print(f"{name}: {done} inputs in {number} calls, seed {seed}: nothing found", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
