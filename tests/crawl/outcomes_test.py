"""What becomes of a page that is forbidden, broken, inside or another one by now: it has its reason."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crawl.site_test import Answer, Killed, Site, World
from tutti.ingest.crawl.fetching import Limits
from tutti.ingest.crawl.pacing import Pace
from tutti.ingest.crawl.visiting import Outcome, visit_all

NAMED = "http://site.test"


class Odd(Site):
    """A small site of which some paths answer as they are told."""

    def __init__(self) -> None:
        super().__init__(12)
        self.odd: dict[str, Answer] = {}

    def answer(self, path: str) -> Answer:
        return self.odd.get(path) or super().answer(path)


@pytest.fixture
def site() -> Iterator[Odd]:
    made = Odd()
    yield made
    made.close()


@pytest.fixture
def inside() -> Iterator[Odd]:
    """What a crawl of the public web must not see."""
    made = Odd()
    yield made
    made.close()


def named(world: World, site: Site, *prefixes: str) -> World:
    """The site is of the public web, by a name; what else is on this machine is not."""
    manner = replace(world.plan.manner, allow_private=False, connect={"site.test": site.root.removeprefix("http://")})
    scope = replace(world.plan.scope, prefixes=(f"{NAMED}/", *prefixes))
    world.plan, world.root = replace(world.plan, seeds=(f"{NAMED}/",), scope=scope, manner=manner), NAMED
    return world


def counts(world: World, host: str) -> dict[str, int]:
    return world.bench.units.run(lambda unit: world.frontier.counts_of_host(unit, "crawls/a", host))


def test_a_redirect_into_a_machine_inside_leads_nowhere(site: Odd, inside: Odd, tmp_path: Path) -> None:
    site.odd["/page-aab"] = 302, {"Location": f"{inside.root}/secret"}, b""
    world = named(World(tmp_path, site), site, f"{inside.root}/")
    world.crawl()
    known = world.known()
    assert known["/"] == "visited/page"
    assert known["/page-aab"] == "visited/redirect"
    assert known[f"{inside.root}/secret"] == "refused/robots_unavailable"
    assert not inside.asked


def test_a_page_inside_fails_for_that_reason_even_where_its_rules_are_known(
    site: Odd, inside: Odd, tmp_path: Path
) -> None:
    world = named(World(tmp_path, site), site)
    urls = [f"{NAMED}/", f"{inside.root}/secret"]
    paces = {NAMED: Pace(), inside.root: Pace()}
    (there, secret), _ = visit_all(urls, paces, world.plan.manner, {})
    assert there.outcome is Outcome.PAGE
    assert (secret.outcome, secret.reason, secret.tries) == (Outcome.FAILED, "private_address", 1)
    assert not inside.asked


def test_rules_that_lie_inside_cannot_be_had(site: Odd, inside: Odd, tmp_path: Path) -> None:
    site.odd["/robots.txt"] = 302, {"Location": f"{inside.root}/robots.txt"}, b""
    world = named(World(tmp_path, site), site)
    world.crawl()
    assert world.known() == {"/": "refused/robots_unavailable"}
    assert not inside.asked


@pytest.mark.parametrize(("status", "tries"), [(401, 1), (403, 1), (410, 1), (451, 1), (500, 3), (502, 3), (503, 3)])
def test_a_page_that_is_refused_or_broken_is_kept_as_that(status: int, tries: int, site: Odd, tmp_path: Path) -> None:
    site.odd["/page-aab"] = status, {"Content-Type": "text/html"}, b"<a href='/behind'>No.</a>"
    world = World(tmp_path, site)
    world.crawl()
    known = world.known()
    assert known["/page-aab"] == "visited/not_ok"
    assert counts(world, site.root)[f"visited/not_ok/{status}"] == 1
    assert site.asked["/page-aab"] == tries
    assert world.archived()["/page-aab"] == 1
    assert "/behind" not in known


def test_rules_that_do_not_come_in_time_allow_nothing(site: Odd, tmp_path: Path) -> None:
    site.silent.add("/robots.txt")
    world = World(tmp_path, site)
    manner = replace(world.plan.manner, limits=Limits(total_seconds=0.2), tries=1)
    world.plan = replace(world.plan, manner=manner)
    world.crawl()
    assert world.known() == {"/": "refused/robots_unavailable"}
    assert set(site.asked) == {"/robots.txt"}


def test_a_site_that_changes_while_it_is_crawled_is_as_it_was_when_each_page_was_asked_for(
    site: Odd, tmp_path: Path
) -> None:
    world = World(tmp_path, site)

    def killed(work: object, *arguments: object) -> object:
        if work is visit_all and "/page-aab" in world.known() and world.known()["/page-aab"] == "visited/page":
            raise Killed
        return work(*arguments)  # type: ignore[operator]

    with pytest.raises(Killed):
        world.crawl(killed)
    before = {path for path, what in world.known().items() if what.startswith("visited/")}
    waiting = next(path for path in site.numbers if path.startswith("/page") and path not in before)
    for path in (*before, waiting):
        site.odd[path] = 200, {"Content-Type": "text/html"}, b"<p>Other words.</p><a href='/came-later'>later</a>"
    asked = {path: site.asked[path] for path in before}
    world.crawl()
    assert {path: site.asked[path] for path in before} == asked
    assert world.known()["/came-later"] == "visited/page"
    assert set(world.archived().values()) == {1}
    bodies = dict(world.answers())
    assert b"Other words" in bodies[waiting]
    assert not [path for path in before if b"Other words" in bodies[path]]
