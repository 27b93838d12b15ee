"""Languages: in which language a text is written, and which macro-language that belongs to.

Told by py3langid's model (naive Bayes over byte n-grams, Lui and Baldwin 2011) from at most SAMPLE characters spread
over the text. Neighbours are easily mistaken for each other, Croatian for Bosnian, and a corpus rarely wants them
apart: a recipe can ask for the macro-language (ISO 639-3) instead. What is too short or not language is `und`.
The sums of the model are taken by languagemodel.py, in an order of their own, so that no library has a say in them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache

from tutti.corpus.counts.characters import Class, class_of
from tutti.corpus.texts import require_texts
from tutti.ingest.quality import languagemodel
from tutti.native.arrays import np, npt, pa

LANGUAGES_VERSION = 2
SAMPLE = 2048
PIECES = 4
UNDETERMINED = "und"
LEAST_PER_MILLE = 200

_MEMBERS = {
    "ar": ("ary", "arz"),
    "ff": ("fuv",),
    "gn": ("gug",),
    "ku": ("sdh",),
    "lv": ("ltg",),
    "ms": ("id",),
    "no": ("nb", "nn"),
    "sh": ("bs", "hr", "sr"),
    "uz": ("uzs",),
    "zh": ("wuu", "yue"),
}
MACRO_LANGUAGES = {member: macro for macro, members in _MEMBERS.items() for member in members}
"""ISO 639-3 macro-languages by the members that the model tells apart; a language that is not here is its own."""

_TOLD = (
    "ace af am an ar ary arz as az ba bcl be bg bn br bs ca crh cs cy da de dz el en eo es et eu ext fa fi fo fr "
    "fuv fy ga gcf gcr gd gl gom grc gu gug guw ha hbo he hi hr ht hu hy id ig is it ja jv ka kab kik kk km kn ko "
    "ku ky la lb lg lij ln lo lt ltg lv mg mk ml mn mr ms mt my ne nl nn no nso oc om or pa pcm pl ps pt qu ro ru "
    "rw sa sdh se si sk sl sn so sq sr st sv sw ta te tg th tk tl tr tt ug uk ur uz uzs vec vi vo wa wuu xh yo "
    "yue zh zu zxx"
)
CODES = frozenset(_TOLD.split())
"""Languages that the model distinguishes: ISO 639-1 if there is one, else 639-3."""
KNOWN = CODES | frozenset(_MEMBERS) | {UNDETERMINED}
"""Languages that a text can have, including macro-languages."""


@cache
def schema() -> pa.Schema:
    """Return the columns of a document's language."""
    return pa.schema(
        [
            pa.field("language", pa.string(), nullable=False),
            pa.field("macro_language", pa.string(), nullable=False),
            pa.field("language_per_mille", pa.int64(), nullable=False),
        ]
    )


@dataclass(frozen=True, slots=True)
class Language:
    """`code`: ISO 639-1 where there is one, else 639-3; `per_mille`: how sure the model is, of 1000."""

    code: str
    per_mille: int

    @property
    def macro(self) -> str:
        return MACRO_LANGUAGES.get(self.code, self.code)


def identify(text: str) -> Language:
    """The language of a text; `und` where it has no letter, or the model is less sure than LEAST_PER_MILLE."""
    return identified([text])[0]


def identified(texts: Sequence[str]) -> list[Language]:
    """The languages of texts, in their order."""
    samples = [sample(text) for text in texts]
    written = [
        row
        for row, read in enumerate(samples)
        if any(class_of(each) in (Class.LETTER, Class.IDEOGRAPH) for each in read)
    ]
    found = [Language(UNDETERMINED, 0)] * len(texts)
    for row, (code, confidence) in zip(
        written, languagemodel.classify([_bytes(samples[row]) for row in written]), strict=True
    ):
        per_mille = round(1000 * confidence)
        found[row] = Language(code if per_mille >= LEAST_PER_MILLE else UNDETERMINED, per_mille)
    return found


def _bytes(read: str) -> bytes:
    """As the model was trained: what is all upper case is read in lower case."""
    return unicodedata.normalize("NFC", read.lower() if read.isupper() else read).encode()


def sample(text: str) -> str:
    """The text, or PIECES of it at equal distances, SAMPLE characters in all."""
    if len(text) <= SAMPLE:
        return text
    size = SAMPLE // PIECES
    begins = [(len(text) - size) * piece // (PIECES - 1) for piece in range(PIECES)]
    return "\n".join(text[begin : begin + size] for begin in begins)


def languages(texts: pa.Array) -> pa.RecordBatch:
    """One row of `schema` for each text of a string array, in its order. Raises UnreadableTexts."""
    require_texts(texts)
    return told(texts.to_pylist())


def told(texts: Sequence[str]) -> pa.RecordBatch:
    """The same for strings of Python's."""
    found = identified(texts)
    columns = [[each.code for each in found], [each.macro for each in found], [each.per_mille for each in found]]
    return pa.record_batch(columns, schema=schema())


def among(found: pa.RecordBatch, wanted: Collection[str]) -> npt.NDArray[np.bool_]:
    """bool [documents]: which are in one of the languages, or macro-languages, that are wanted."""
    codes, macros = (found.column(name).to_pylist() for name in ("language", "macro_language"))
    return np.array([code in wanted or macro in wanted for code, macro in zip(codes, macros, strict=True)], np.bool_)
