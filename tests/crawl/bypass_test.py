"""A site whose links, redirects, canonical links and sitemap try to lead the crawler out of its scope and its rules."""

import random
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path
from urllib.parse import unquote, urljoin

import pytest

from tests.crawl.site import Answer, Site
from tests.crawl.site_test import World

LINKS, LINKS_OF_PAGE = 10_000, 1_000
HTML = {"Content-Type": "text/html; charset=utf-8"}
PIECES = (
    "/ / / .. .. . %2e%2e .%2E ; ;sid=a ;jsessionid=b/ %3Bsid=c ;%73id=d ;PHPSESSID= docs/ docs open/ secret private/"
    " private %2f %5c \\ # ? & sid=e % %25 %2 // http: \t \u3002 \uff0e \u2025 \ud800 \u00e9 x $ *"
)
EXPLICIT = [
    "..;sid=a/secret",
    "%2e%2e;sid=a/secret",
    ".%2E;jsessionid=/secret",
    "open/..;sid=a/..;sid=b/secret",
    "x/..;sid=a/private/x",
    "/docs/open/../private/x",
    "/docs/open/%2e%2e/private/x",
    "/docs/pri%76ate/x",
    "/docs/private;sid=a/x",
    "/docs/;sid=a/../../secret",
]


def references(seed: int, number: int) -> list[str]:
    chosen = random.Random(seed)
    return ["".join(chosen.choices(PIECES.split(" "), k=chosen.randint(2, 7))) for _ in range(number)]


class Hostile(Site):
    """Pages below `/docs/` hold the references; each page redirects or names a canonical URL by one of them."""

    def __init__(self) -> None:
        super().__init__(1)
        self.references = [*EXPLICIT, *references(1, LINKS - len(EXPLICIT))]
        self.moves = [*EXPLICIT, *references(2, 200)]

    def answer(self, path: str) -> Answer:
        if path == "/robots.txt":
            rules = f"User-agent: *\nDisallow: /secret\nDisallow: /docs/private\nSitemap: {self.root}/docs/map.xml\n"
            return 200, {"Content-Type": "text/plain"}, rules.encode()
        if path == "/docs/map.xml":
            places = (urljoin(f"{self.root}/docs/", each) for each in self.moves)
            listed = "".join(f"<url><loc>{escape(each)}</loc></url>" for each in places if each.isprintable())
            return 200, {"Content-Type": "text/xml"}, f"<urlset>{listed}</urlset>".encode(errors="replace")
        kind, _, number = path.removeprefix("/docs/").partition("-")
        if kind == "moved" and number.isdigit():
            return 302, {"Location": self.moves[int(number)].encode(errors="replace").decode("latin-1")}, b""
        if kind == "own" and number.isdigit():
            own = escape(self.moves[int(number)])
            return 200, HTML, f"<link rel=canonical href='{own}'><p>Own.".encode(errors="replace")
        links: list[str] = []
        if path == "/docs/":
            links = [f"/docs/page-{each}" for each in range(LINKS // LINKS_OF_PAGE)]
            links += [f"/docs/{what}-{each}" for what in ("moved", "own") for each in range(len(self.moves))]
        elif kind == "page" and number.isdigit():
            begin = int(number) * LINKS_OF_PAGE
            links = self.references[begin : begin + LINKS_OF_PAGE]
        return 200, HTML, "".join(f"<a href='{escape(each)}'>x</a>" for each in links).encode(errors="replace")


@pytest.fixture
def site() -> Iterator[Hostile]:
    made = Hostile()
    yield made
    made.close()


def violations(asked: list[str]) -> list[str]:
    """Requested paths that some server would resolve to a place outside `/docs/`, or that are disallowed."""
    found = []
    for path in asked:
        plain = path.partition("?")[0]
        segments = [each.partition(";")[0] for each in unquote(plain).replace("\\", "/").split("/")]
        outside = not plain.startswith("/docs/") or {".", ".."} & set(segments)
        if path != "/robots.txt" and (outside or unquote(plain).startswith("/docs/private")):
            found.append(path)
    return found


def test_no_reference_leads_out_of_the_scope_or_around_the_rules(site: Hostile, tmp_path: Path) -> None:
    world = World(tmp_path, site, alike=1_000_000, prefixes=(f"{site.root}/docs/",))
    world.plan = replace(world.plan, seeds=(f"{site.root}/docs/",), batch=500)
    world.crawl()
    assert violations(list(site.asked)) == []
    known = world.known()
    assert known["/secret"] == "left/elsewhere"
    assert known["/docs/private/x"] == "refused/robots"
    assert sum(what == "visited/page" for what in known.values()) > 500
    assert site.asked["/docs/map.xml"] == 1


def test_the_control_sees_each_way_out() -> None:
    ways = ["/secret", "/docs/../secret", "/docs/%2e%2E/secret", "/docs/..;sid=a/secret", "/docs/pri%76ate/x"]
    assert violations([*ways, "/docs/", "/docs/open/x", "/robots.txt"]) == ways
