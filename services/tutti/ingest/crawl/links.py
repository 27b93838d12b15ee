"""Links: what a page says of others, and of itself.

Promises: what comes out is canonical, each URL once and sorted, whatever the page; what a page asks not to be followed
is not followed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from resiliparse.parse.html import HTMLTree

from tutti.corpus.documents.documents import MediaType
from tutti.ingest.crawl.urls import NotAPage, canonical
from tutti.ingest.encoding.sniffing import decode, is_binary, media_type
from tutti.ingest.reading.markup import rewritten
from tutti.ingest.reading.markupkinds import Mode

MAX_LINKS = 20_000
"""Maximum number of links of a page, the first ones in its order. A page with more is a list made for machines."""
MAX_OWN = 100
"""Maximum number of canonical URLs of a page; the first ones."""
_VALUED = frozenset(("max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"))
"""Directives that have a value behind a colon; what else stands before one is the name of an agent."""
_VALUE = re.compile(rf"(?:{'|'.join(sorted(_VALUED))})\s*:\s*[^\s,]*")


@dataclass(frozen=True, slots=True)
class PageLinks:
    """`canonical`: the URL under which the page wants to be known, empty for none; `index`: whether it wants to be."""

    links: tuple[str, ...] = ()
    canonical: str = ""
    index: bool = True
    faults: dict[str, int] = field(default_factory=dict)


def said(
    url: str, body: bytes, *, agent: str, kind: str = "", charset: str = "", headers: Iterable[str] = ()
) -> PageLinks:
    """The links and directives of a page at a canonical URL.

    `kind` (its content type), `charset` and `headers` (each X-Robots-Tag) came with it.
    """
    index, follow = asked(headers, agent)
    if is_binary(body, charset) or media_type(url, body, charset, kind) is not MediaType.HTML:
        return PageLinks(index=index)
    decoded = decode(body, MediaType.HTML, charset)
    tree = HTMLTree.parse(rewritten(decoded.utf8(body), Mode.LINKS).html.decode())
    names = {"robots", agent.lower()}
    metas = tree.document.query_selector_all("meta[name][content]")[:MAX_LINKS]
    inside = _obeyed(each.getattr("content") for each in metas if each.getattr("name").strip().lower() in names)
    first = tree.document.query_selector("base[href]")
    base = "" if first is None else first.getattr("href")
    where = _resolved(base, url) or url
    faults: dict[str, int] = {}
    found = set(_canonical(_references(tree), where, faults)) if follow and inside[1] else set()
    return PageLinks(tuple(sorted(found)), _own(tree, where), index and inside[0], faults)


def asked(headers: Iterable[str], agent: str) -> tuple[bool, bool]:
    """Evaluate each X-Robots-Tag header: (the page may be kept, its links may be followed)."""
    return _obeyed(directive for header in headers for directive in _heard(header, agent))


def _heard(header: str, agent: str) -> Iterator[str]:
    """The directives for an agent, or for all. Those behind the name of one, as in `bot: noindex`, are for that one."""
    heard = True
    for directive in header.split(","):
        name, colon, rest = (part.strip() for part in directive.partition(":"))
        if colon and re.fullmatch(r"\S+", name) and name.lower() not in _VALUED:
            heard, directive = name.lower() == agent.lower(), rest
        if heard:
            yield directive


def _obeyed(lists: Iterable[str]) -> tuple[bool, bool]:
    """Evaluate lists of directives: (page may be kept, its links may be followed). Many pages have spaces instead of
    commas.
    """
    words = {word for each in lists for word in _VALUE.sub(" ", each.lower()).replace(",", " ").split()}
    return not words & {"noindex", "none"}, not words & {"nofollow", "none"}


def _references(tree: HTMLTree) -> list[str]:
    """As they are written but for what stands behind #, each once."""
    found: dict[str, None] = {}
    # A slice is read once; iteration looks for each element from the begin of the page.
    for each in tree.document.query_selector_all("a[href], area[href], iframe[src], frame[src]")[:MAX_LINKS]:
        if "nofollow" not in (each.getattr("rel") or "").lower().split():
            found[(each.getattr("href") or each.getattr("src") or "").partition("#")[0]] = None
    return list(found)


def _canonical(references: Iterable[str], base: str, faults: dict[str, int]) -> Iterator[str]:
    for reference in references:
        try:
            yield canonical(reference, base)
        except NotAPage as error:
            faults[error.fault.value] = faults.get(error.fault.value, 0) + 1


def _own(tree: HTMLTree, base: str) -> str:
    """The URL in rel=canonical; empty if there are several that differ."""
    named = (
        each.getattr("href")
        for each in tree.document.query_selector_all("link[rel][href]")[:MAX_LINKS]
        if "canonical" in each.getattr("rel").lower().split()
    )
    found = {_resolved(reference, base) for reference in itertools.islice(named, MAX_OWN)}
    return found.pop() if len(found) == 1 else ""


def _resolved(reference: str, base: str) -> str:
    try:
        return canonical(reference, base) if reference else ""
    except NotAPage:
        return ""
