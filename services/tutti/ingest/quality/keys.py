"""Keys: credentials that say by their form what they are.

Known beginnings with a tail of the length that their issuer gives, JSON web tokens (RFC 7519), private keys in PEM
(RFC 7468) and of OpenPGP, also those that are cut. A password without a form is no finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tutti.ingest.quality.findings import Finding, Kind, Window

LONGEST = 4096
LONGEST_PEM = 1 << 14

# beginning: the fewest and most characters behind it
FORMS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("AKIA", "ASIA"), (16, 16)),
    **dict.fromkeys(("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), (36, 255)),
    "github_pat_": (40, 255),
    "glpat-": (20, 255),
    **dict.fromkeys(("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-"), (20, 255)),
    **dict.fromkeys(("sk_live_", "rk_live_"), (20, 255)),
    "sk-": (20, 255),
    "AIza": (35, 35),
    "hf_": (30, 64),
    "npm_": (36, 36),
    "pypi-": (50, 512),
    "SG.": (40, 255),
    "eyJ": (40, LONGEST - 3),
}

_TAIL = re.compile(rf"[A-Za-z0-9_.\-]{{0,{LONGEST}}}+")
_IN_KEY = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_PEM_HEAD = re.compile(r"-----BEGIN (?:[A-Z]{1,16}+ ){0,2}?PRIVATE KEY(?: BLOCK)?+-----")
_PEM_FIELD = re.compile(r"(?:\s|\\[nr]){1,64}+[A-Z][A-Za-z\-]{1,32}+: [^\n\\]{1,256}+")
_PEM_LINE = re.compile(r"(?:\s|\\[nr]){0,64}+[A-Za-z0-9+/=]{16,1024}+")
PATTERNS = (_TAIL, _PEM_HEAD, _PEM_FIELD, _PEM_LINE)
_PEM_BEGIN, _PEM_END = "-----BEGIN ", "-----END "


def windows(text: str) -> Iterator[Window]:
    """Runs that begin with a known beginning: a run begins once, so that few of them overlap."""
    for beginning in FORMS:
        at = text.find(beginning)
        while at >= 0:
            if not at or text[at - 1] not in _IN_KEY:
                tail = _TAIL.match(text, at)
                yield Window(at, tail.end() if tail else at, at + len(beginning))
            at = text.find(beginning, at + 1)


def find(text: str) -> Iterator[Finding]:
    """The keys of a text but private ones, those of one form in its order."""
    for window in windows(text):
        parts = text[window.begin : window.end].rstrip(".-").split(".")
        for count in (len(parts), 3, 1):  # a sentence may follow without a space
            written = ".".join(parts[:count])
            if _is_key(written, text[window.begin : window.at]):
                yield Finding(window.begin, window.begin + len(written), Kind.KEY)
                break


def find_private(text: str) -> Iterator[Finding]:
    """The private keys of a text, in its order."""
    begin = end = text.find(_PEM_BEGIN)
    while begin >= 0:
        following = _found(text, _PEM_BEGIN, begin + 1)
        end = _found(text, _PEM_END, begin) if end <= begin else end
        if head := _PEM_HEAD.match(text, begin):
            if end < following and end - begin <= LONGEST_PEM:
                closing = text.find("-----", end + len(_PEM_END), min(end + 64, following))
                stop = closing + 5 if closing >= 0 else end
            else:
                stop = _cut(text, head.end(), following)
            if stop:
                yield Finding(begin, stop, Kind.KEY)
        begin = following if following < len(text) else -1


def _found(text: str, what: str, begin: int) -> int:
    at = text.find(what, begin)
    return at if at >= 0 else len(text)


def _cut(text: str, at: int, limit: int) -> int:
    """The end of a private key that has no end mark: after its last complete line; 0 if it has none."""
    while field := _PEM_FIELD.match(text, at, limit):
        at = field.end()
    begin = at
    while line := _PEM_LINE.match(text, at, limit):
        at = line.end()
    return at if at > begin else 0


def _is_key(written: str, begins: str) -> bool:
    tail = written[len(begins) :]
    least, most = FORMS[begins]
    return least <= len(tail) <= most and _is_random(tail) and (begins != "eyJ" or _is_token(written))


def _is_random(tail: str) -> bool:
    return any(each.isdigit() for each in tail) and any(each.isalpha() for each in tail)


def _is_token(written: str) -> bool:
    parts = written.split(".")
    return len(parts) == 3 and min(map(len, parts)) >= 10
