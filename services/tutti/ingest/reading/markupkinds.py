"""Properties of elements and attributes by their names, and the parts of them that are kept."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from html import unescape

MAX_DEPTH = 512


class Mode(enum.IntEnum):
    """VISIBLE: all text that a page shows; MAIN: what may be main content; LINKS: what leads to other pages."""

    VISIBLE = 0
    MAIN = 1
    LINKS = 2


class Kind(enum.IntFlag):
    """The kind of an element, by its name.

    HARD: nothing in it is shown; BESIDE: it is no main content; RAW: there are no tags in it; VOID: it is empty, and
    shown; IGNORED: its tags are left out; INLINE: so are these, but they count as open. The others are those of the
    standard: SPECIAL and THIN end the search of an end tag, SCOPE that of one for a block.
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
    H2 = enum.auto()


NO_KIND = Kind(0)
_ELEMENTS = {
    Kind.HARD: "applet button figcaption figure noscript object select svg template audio video canvas datalist",
    Kind.BESIDE: "nav footer aside time audio video",
    Kind.RAW: "script style textarea title iframe noembed noframes",
    Kind.VOID: "br hr",
    Kind.ENDS_P: "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer "
    "form header hgroup main menu nav ol p search section summary ul pre listing table hr li dd dt h1 h2 h3 h4 h5 h6",
    Kind.SPECIAL: "article aside blockquote button center dd details dir dl dt fieldset figcaption figure footer form "
    "header hgroup li listing main menu nav noscript ol pre search section select summary ul h1 h2 h3 h4 h5 h6 "
    "applet caption table td th tr tbody thead tfoot marquee object template",
    Kind.THIN: "address div p",
    Kind.SCOPE: "applet caption table td th marquee object template",
    Kind.INLINE: "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label map mark meter "
    "nobr output picture progress q rb rp rt rtc ruby s samp small span strike strong sub sup tt u var",
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
    "link meta optgroup option param source track wbr math",
    Kind.LABEL: "label",
    Kind.WRAPPED: "div p ul ol table h1 h2 h3 h4",
    Kind.H1: "h1",
    Kind.H2: "h2",
    Kind.P: "p",
    Kind.A: "a",
    Kind.BUTTON: "button",
    Kind.FOREIGN: "svg",
    Kind.TITLE: "title",
    Kind.SCRIPT: "script",
    Kind.TEMPLATE: "template",
    Kind.LINK: "a area base frame iframe link meta",
}
BOXES = (
    "breadcrumb", "cookie", "copyright", "disclaimer", "disqus", "footer", "newsletter", "pagination", "signup",
    "subscri",
)  # fmt: skip
"""Parts of the classes of what is no main content, unless there is a heading of the first level in it."""
POOR = (
    "account", "advert", "author", "banner", "byline", "caption", "consent", "credit", "login", "menu", "nav",
    "paywall", "popular", "privacy", "promo", "rating", "recommend", "register", "related", "respond", "search",
    "share", "sidebar", "signin", "social", "sponsor", "sticky", "trending",
)  # fmt: skip
"""Parts of the classes of what is none unless it has prose. Ids are not looked at: they are names of functions, too."""
LONG_PARAGRAPH, LITTLE_PROSE, ARTICLE = 60, 50, 250
"""Bytes of text: a longer paragraph is prose, but for its links; an element with less may be left out; a page with less
has no article behind which all other elements without prose are left out.
"""
READ = {
    Mode.VISIBLE: (),
    Mode.MAIN: ("href", "class"),
    Mode.LINKS: ("href", "src", "rel", "name", "content"),
}  # fmt: skip


LONGEST = {Mode.VISIBLE: 0, Mode.MAIN: 512, Mode.LINKS: 20_000}
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
