"""Folding: what near-duplicates take for the same character, as frozen in folding.txt.

Capitals, widths, compatibility forms and accents are folded away; each character becomes one character, is left out, or
separates words. The table does not follow the Unicode version of the Python at hand: another table, another version.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tutti.records.canonical import bytes_digest
from tutti.records.errors import CorruptShard

FOLDING_VERSION = 1
SOURCE = Path(__file__).with_name("folding.txt")
CODES = 0x110000

SEPARATOR = np.uint32(0)
LEFT_OUT = np.uint32(1 << 30)
ALONE = np.uint32(1 << 31)
"""Flag beside the folded code: a word by itself."""
_HOW = {"w": SEPARATOR, "s": ALONE, "x": LEFT_OUT}


@functools.cache
def folding() -> npt.NDArray[np.uint32]:
    """For every code point its folded code (with ALONE), SEPARATOR or LEFT_OUT. Raises CorruptShard when damaged."""
    head, body = _read()
    if (seen := bytes_digest(body.encode())) != head:
        raise CorruptShard(shard=SOURCE.name, section="table", seen=seen, expected=head)
    rows = [line.replace("..", " ").split(" ") for line in body.splitlines()]
    first, last, base = np.array([[int(code, 16) for code in row[:3]] for row in rows]).T
    sizes = last + 1 - first
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    how = np.repeat([_HOW[row[3]] for row in rows], sizes)
    folded = (np.repeat(base, sizes) + within).astype(np.uint32) | how
    table = np.full(CODES, SEPARATOR, np.uint32)
    table[np.repeat(first, sizes) + within] = np.where(how == LEFT_OUT, LEFT_OUT, folded)
    table.flags.writeable = False
    return table


def _read() -> tuple[str, str]:
    """The digest in the file's head, and the lines below the head."""
    lines = SOURCE.read_text(encoding="ascii").splitlines(keepends=True)
    return lines[2].removeprefix("# ").strip(), "".join(lines[3:])
