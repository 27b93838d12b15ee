"""Folding: the letters that a text shows, however they are written.

An *atom* is a string of one or more characters for which one place of a text can be taken; the first of them is what it
is, the others are what it looks like (`3` is also `e`). Promises: the atoms of a character depend on nothing but this
character, except that white space in a row is one atom; so a text can be folded while it grows.
"""

import unicodedata
from collections.abc import Iterator

FOLDING_VERSION = f"1.{unicodedata.unidata_version}"
SPACE = " "
_SAME = {
    # Cyrillic, Greek and other letters that look like Latin ones, behind NFKD and casefold
    **dict(zip("авсԁенһіјкӏмопԛгѕтуѵԝхьз", "abcdehhijklmonqrstyvwxb3", strict=True)),
    **dict(zip("αβεηικνορςτυχγωϲ", "abenikvopstuxywc", strict=True)),
    **dict(zip("ıɩɑɡɓɗɛʟɴʀʏᴀᴄᴇɪᴏᴜɵøłđħŧƒȷꭓ", "iiagbdelnryaceiouooldhtfjx", strict=True)),
    "\u2044": "/",
    "\u2010": "-",
    "\u2011": "-",
    "\u2013": "-",
    "\u2014": "-",
    "\u2212": "-",
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
}
"""Characters that are taken for one other, in patterns as in texts."""
_LOOKS = {
    **{"0": "o", "1": "il", "2": "z", "3": "e", "4": "a", "5": "s", "6": "g", "7": "t", "8": "b", "9": "g"},
    **{"@": "a", "$": "s", "!": "i", "|": "il", "+": "t", "\u20ac": "e", "(": "c"},
}
"""Further characters as which one of a text can be read."""
_CAPITALS = dict(zip("\u0397\u039d\u03a5\u0396\u039c\u03a1\u0412\u041d\u0420\u0421\u0423", "hnyzmpbhpcy", strict=True))
"""Capitals that look like another Latin letter than their small letters."""
_DROPPED = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f")
"""Characters without any ink that Unicode counts as letters or signs."""
_DROPPED_KINDS = ("Cf", "Cc", "Me", "Cs", "Co")


class _Atoms(dict[str, tuple[str, ...]]):
    """The atoms of each character; none for one that cannot be seen."""

    def __missing__(self, character: str) -> tuple[str, ...]:
        if character.isspace():
            found: tuple[str, ...] = (SPACE,)
        else:
            whole = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
            capital = _CAPITALS.get(character, "")
            found = tuple(_atom(each, capital) for each in whole if _is_seen(each))
        self[character] = found
        return found


def _is_seen(character: str) -> bool:
    if character in _DROPPED or unicodedata.combining(character) or "\ufe00" <= character <= "\ufe0f":
        return False
    return character.isspace() or unicodedata.category(character) not in _DROPPED_KINDS


def _atom(character: str, capital: str) -> str:
    if character.isspace():
        return SPACE
    first = _SAME.get(character, character)
    others = capital + _LOOKS.get(first, "")
    return first + "".join(each for each in others if each != first)


_atoms = _Atoms()


class Folder:
    """Folds a text character by character."""

    def __init__(self) -> None:
        self._spaced = False

    def push(self, character: str) -> tuple[str, ...]:
        """Return the atoms of the next character; of white space in a row, the first is an atom."""
        found = _atoms[character]
        if not found:
            return found
        if found[0] == SPACE and self._spaced:
            found = found[1:]
        if found:
            self._spaced = found[-1] == SPACE
        return found


def folded(text: str) -> Iterator[str]:
    """Yield the atoms of a text."""
    folder = Folder()
    for character in text:
        yield from folder.push(character)


def is_word(atom: str) -> bool:
    """Return whether an atom is a part of a word: a letter or a digit."""
    return atom[0].isalnum()
