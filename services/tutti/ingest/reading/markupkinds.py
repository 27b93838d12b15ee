"""Properties of elements and attributes by their names, and the parts of them that are kept."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from html import unescape

MAX_DEPTH = 512
MOST_BLOCKS = 1 << 20
"""Elements of a page that are looked at again at its end; each takes 48 bytes. One with more is not parsed."""


class Mode(enum.IntEnum):
    """VISIBLE: all text that a page shows; MAIN: what may be main content; LINKS: what leads to other pages."""

    VISIBLE = 0
    MAIN = 1
    LINKS = 2


class Kind(enum.IntFlag):
    """The kind of an element, by its name.

    HARD: nothing in it is shown; BESIDE: it is no main content; SIDE: it is some where it is in an article; RAW: there
    are no tags in it; VOID: it is empty, and shown; IGNORED: its tags are left out; INLINE: so are these, but they
    count as open; BLOCK: it is written as a div; LABEL: it is left out unless a WRAPPED one is in it; TEX: it is the
    source of a formula; SLUG: its id is made of its heading. The others are those of the standard: SPECIAL and THIN end
    the search of an end tag, SCOPE that of one for a block.
    """

    HARD = enum.auto()
    BESIDE = enum.auto()
    RAW = enum.auto()
    VOID = enum.auto()
    ENDS_P = enum.auto()
    SPECIAL = enum.auto()
    THIN = enum.auto()
    SCOPE = enum.auto()
    INLINE = enum.auto()
    FORMAT = enum.auto()
    HEADING = enum.auto()
    LIST = enum.auto()
    ITEM = enum.auto()
    TERM = enum.auto()
    CELL = enum.auto()
    ROW = enum.auto()
    GROUP = enum.auto()
    TABLE = enum.auto()
    IGNORED = enum.auto()
    LABEL = enum.auto()
    WRAPPED = enum.auto()
    H1 = enum.auto()
    P = enum.auto()
    A = enum.auto()
    BUTTON = enum.auto()
    FOREIGN = enum.auto()
    TITLE = enum.auto()
    SCRIPT = enum.auto()
    TEMPLATE = enum.auto()
    LINK = enum.auto()
    THROUGH = enum.auto()
    BLOCK = enum.auto()
    SUP = enum.auto()
    MATH = enum.auto()
    TEX = enum.auto()
    SIDE = enum.auto()
    SLUG = enum.auto()


NO_KIND = Kind(0)
_ELEMENTS = {
    Kind.HARD: "annotation-xml applet noscript object select svg template audio video canvas datalist",
    Kind.BESIDE: "nav footer dialog",
    Kind.SIDE: "aside",
    Kind.RAW: "script style textarea title iframe noembed noframes",
    Kind.VOID: "br hr",
    Kind.ENDS_P: "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer "
    "form header hgroup main menu nav ol p search section summary ul pre listing table hr li dd dt h1 h2 h3 h4 h5 h6",
    Kind.SPECIAL: "article aside blockquote button center dd details dir dl dt fieldset figcaption figure footer form "
    "header hgroup li listing main menu nav noscript ol pre search section select summary ul h1 h2 h3 h4 h5 h6 "
    "applet caption table td th tr tbody thead tfoot marquee object template",
    Kind.THIN: "address div p",
    Kind.SCOPE: "applet caption table td th marquee object template",
    Kind.INLINE: "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label map mark math "
    "meter nobr output picture progress q rb rp rt rtc ruby s samp small span strike strong sub sup time "
    "tt u var annotation",
    Kind.FORMAT: "a b big code em font i nobr s small strike strong tt u",
    Kind.THROUGH: "label svg audio video canvas datalist",
    Kind.HEADING: "h1 h2 h3 h4 h5 h6",
    Kind.LIST: "ol ul",
    Kind.ITEM: "li",
    Kind.TERM: "dd dt",
    Kind.CELL: "td th caption",
    Kind.ROW: "tr",
    Kind.GROUP: "tbody thead tfoot",
    Kind.TABLE: "table",
    Kind.IGNORED: "html head body frameset frame area base basefont bgsound col colgroup embed image img input keygen "
    "link meta optgroup option param source track wbr menclose merror mfenced mfrac mi mmultiscripts mn mo mover "
    "mpadded mphantom mprescripts mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder "
    "munderover semantics",
    Kind.LABEL: "label figcaption",
    Kind.WRAPPED: "div p ul ol table h1 h2 h3 h4",
    Kind.H1: "h1",
    Kind.SLUG: "section h1 h2 h3 h4 h5 h6",
    Kind.BLOCK: "figure button",
    Kind.SUP: "sup",
    Kind.MATH: "math",
    Kind.TEX: "annotation",
    Kind.P: "p",
    Kind.A: "a",
    Kind.BUTTON: "button",
    Kind.FOREIGN: "svg",
    Kind.TITLE: "title",
    Kind.SCRIPT: "script",
    Kind.TEMPLATE: "template",
    Kind.LINK: "a area base frame iframe link meta",
}


class Sort(enum.IntFlag):
    """The sort of an element.

    By a word of its class, id or role, or by what hides it: GONE, it is not shown, or no text; BOX, it is no main
    content, unless there is a heading of the first level in it; POOR, nor is it, unless it has prose; JAX, it shows a
    formula; LAYOUT, none of the words of this name counts.
    By its content when it ends: BARE, no prose; LINKED, mostly links; TEASER, little prose below headings that are
    links; TITLED, a heading of the first level; WHOLE, it may be the article. ASIDE: it is content inside the article
    alone. OUT: it is left out.
    """

    GONE = 1
    BOX = 2
    POOR = 4
    ASIDE = 8
    JAX = 16
    LAYOUT = 32
    BARE = 64
    LINKED = 128
    WHOLE = 256
    OUT = 512
    TITLED = 1024
    TEASER = 2048


_WORDS = {
    Sort.GONE: "gutter headerlink lineno linenos linenumber linenumbers sr visually",
    Sort.BOX: "bio breadcrumb breadcrumbs comentarios comment commentaires commentlist comments consent contentinfo "
    "cookie cookies copyright dialog disclaimer disclosure disqus footer gdpr kommentar kommentare login modal nav "
    "navbar navigation newsletter outbrain pager pagination paywall popup promo recommend recommendations recommended "
    "register related respond share sharing sidebar signin signup social sponsor sponsored subscribe subscription "
    "taboola teasers trending",
    Sort.POOR: "account ad ads advert advertisement author banner byline caption credit credits crumb cta license "
    "menu meta popular print privacy rating ratings search skip sticky tag tags teaser toolbar tooltip widget widgets",
    Sort.JAX: "jax",
    Sort.LAYOUT: "elementor has no with without",
}
WORDS = {word: sort for sort, words in _WORDS.items() for word in words.split()}
"""Sorts by whole words: a name is split at what is no letter, and before a capital behind a small letter."""
LONG_RUN, LITTLE_PROSE, ARTICLE, QUESTION, LONGEST_WORD = 60, 50, 250, 16, 8
"""Bytes of text. A longer run between two blocks is prose, but for its links; an element with less prose may be left
out; a page with less has no article; a button with less is no question; a longer superscript is no word, as th is.
"""
_READ = ("href", "class", "id", "role", "style", "hidden", "aria-hidden", "type", "encoding", "alttext")
READ = {
    Mode.VISIBLE: _READ,
    Mode.MAIN: _READ,
    Mode.LINKS: ("href", "src", "rel", "name", "content"),
}  # fmt: skip


LONGEST = {Mode.VISIBLE: 4_000, Mode.MAIN: 4_000, Mode.LINKS: 20_000}
"""Bytes of an attribute that are read."""


def _kinds() -> dict[str, Kind]:
    kinds = {"legend": 0}  # it is shown, and nothing else is to be known of it
    for kind, names in _ELEMENTS.items():
        for name in names.split():
            kinds[name] = kinds.get(name, 0) | int(kind)
    return {name: Kind(number) for name, number in kinds.items()}


KINDS = _kinds()


@dataclass(frozen=True, slots=True)
class Markup:
    """A page that can be parsed. `levels`: how many of its elements lie in each other; `cost`: what it takes to look at
    all text below each of its elements, in tags.
    """

    html: bytes
    title: str
    tags: int
    levels: int
    cost: int
    too_deep: bool


def title_of(title: bytes) -> str:
    """The text of a title between its tags."""
    return unescape(title.decode(errors="replace"))
