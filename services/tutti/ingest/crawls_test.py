"""Crawls as work: what is asked is checked before anything is visited; where hosts lie may change."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.errors import AlreadyExists, InvalidField
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.call import Call
from tutti.chassis.store import taskrows
from tutti.chassis.tasks_test import Bench, Inline
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_RUNNING, GetRequest
from tutti.contracts.ingest.v1 import Crawl, CrawlSpec, CreateCrawlRequest
from tutti.ingest.service import build

CALL = Call(role=Role.OPERATOR, request_id="", peer="test", deadline_seconds=10)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(EmbeddedBlobs(tmp_path / "blobs"), service="ingest", values={"private_ranges": ["127.0.0.0/8"]})
    yield made
    made.database.close()


@pytest.fixture
def api(bench: Bench) -> Any:
    service = build(bench)
    bench.kinds = {kind.name: kind for kind in service.tasks}
    bench.database.create(bench.metadata)
    return service.serves[0].api


def port() -> int:
    """One that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"A page.")

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextlib.contextmanager
def listening() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_port
        server.shutdown()


class Stopped:
    """A crawl of one page whose host lies at a port; it was stopped after so many calls of its work."""

    def __init__(self, bench: Bench, api: Any, port: int, *, after: int) -> None:
        self.bench, self.api, self.worker = bench, api, bench.worker()
        self.lies(port)
        whole, left = bench.pool, after

        class Stopping(Inline):
            def run(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
                nonlocal left
                if not left:
                    raise KeyboardInterrupt
                left -= 1
                return whole.run(fn, *args, **kwargs)

        bench.pool = Stopping()
        with pytest.raises(KeyboardInterrupt):
            self.worker.step()
        bench.pool = whole
        bench.units.run(taskrows.vacate)

    def lies(self, port: int) -> None:
        """The recipe is carried out (again)."""
        spec = CrawlSpec(seeds=["http://a.example/"], contact="me@a.example", skip_sitemaps=True)
        spec.connect.add(host="a.example", address=f"127.0.0.1:{port}")
        self.api.CreateCrawl(CreateCrawlRequest(request_id="a", name="crawls/a", spec=spec), CALL)

    def after(self, seconds: float) -> Crawl:
        """What became of it when it is worked on after some time."""
        self.bench.clock.advance(seconds)
        assert self.worker.step()
        found: Crawl = self.api.GetCrawl(GetRequest(name="crawls/a"), CALL)
        return found


WAITS = "waits: nobody listens where input.crawl.connect says that a.example lies"


def test_a_crawl_that_was_stopped_waits_for_its_site_and_goes_on_where_that_lies_by_now(api: Any, bench: Bench) -> None:
    with listening() as there:
        crawl = Stopped(bench, api, there, after=1)
    waits = crawl.after(1)
    assert (waits.state, waits.reason) == (STATE_RUNNING, WAITS)
    with listening() as elsewhere:
        crawl.lies(elsewhere)
        done = crawl.after(2)
    assert (done.state, done.reason) == (STATE_DONE, "")
    assert {each.what: each.pages for each in done.counts} == {"visited/page": 1}


def test_a_site_that_stays_away_fails_the_crawl_instead_of_leaving_pages_out(api: Any, bench: Bench) -> None:
    with listening() as there:
        crawl = Stopped(bench, api, there, after=1)
    assert (crawl.after(1).reason, crawl.after(61).reason) == (WAITS, WAITS)
    failed = crawl.after(600)
    assert failed.state == STATE_FAILED
    assert failed.reason.startswith("a.example answered before, and now nobody listens")
    assert str(there) not in failed.reason


def test_a_site_that_never_answered_is_one_that_is_not_there(api: Any, bench: Bench) -> None:
    crawl = Stopped(bench, api, port(), after=0)
    assert crawl.after(1).reason == WAITS
    failed = crawl.after(61)
    assert failed.reason.startswith("the crawl brought no page; of its URLs: 1 refused/robots_unavailable")


def test_a_crawl_whose_host_lies_elsewhere_while_it_goes_on_follows(api: Any, bench: Bench) -> None:
    with listening() as there, listening() as elsewhere:
        crawl = Stopped(bench, api, there, after=1)
        whole = bench.pool

        class Moving(Inline):
            def run(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
                crawl.lies(elsewhere)
                return whole.run(fn, *args, **kwargs)

        bench.pool = Moving()
        assert crawl.after(1).state == STATE_RUNNING
        assert crawl.after(1).state == STATE_DONE


def test_a_crawl_that_is_asked_for_with_other_places_is_the_same_crawl(api: Any, bench: Bench) -> None:
    def create(address: str, pages: int = 5) -> Crawl:
        spec = CrawlSpec(seeds=["http://a.example/"], contact="me@a.example", pages=pages)
        spec.connect.add(host="a.example", address=address)
        found: Crawl = api.CreateCrawl(CreateCrawlRequest(request_id="a", name="crawls/a", spec=spec), CALL).crawl
        return found

    assert create("127.0.0.1:4821") == create("127.0.0.1:4822")
    with pytest.raises(AlreadyExists):
        create("127.0.0.1:4822", pages=6)


def test_what_a_crawl_begins_with_is_a_crawl_that_is_done(api: Any) -> None:
    def create(name: str, since: str) -> None:
        spec = CrawlSpec(seeds=["http://a.example/"], contact="me@a.example", since=since)
        api.CreateCrawl(CreateCrawlRequest(request_id=name, name=name, spec=spec), CALL)

    create("crawls/a", "")
    for since, said in (
        ("crawls/a", "a crawl that is done, got .crawls/a, which is pending"),
        ("crawls/nobody", "crawls/nobody"),
        ("runs/a", "runs/a"),
    ):
        with pytest.raises(InvalidField, match=r"spec\.since.*" + said):
            create("crawls/b", since)


def test_a_recipe_names_no_address_out_of_the_operators_bounds(bench: Bench, api: Any) -> None:
    bench.values["private_ranges"] = ["10.0.0.0/8"]
    with listening() as there:
        spec = CrawlSpec(seeds=["http://a.example/"], contact="me@a.example", skip_sitemaps=True)
        spec.connect.add(host="a.example", address=f"127.0.0.1:{there}")
        api.CreateCrawl(CreateCrawlRequest(request_id="a", name="crawls/a", spec=spec), CALL)
        assert bench.worker().step()
        found = api.GetCrawl(GetRequest(name="crawls/a"), CALL)
    assert found.state == STATE_FAILED
    assert "ingest.private_ranges" in found.reason
    assert "127.0.0.1" not in found.reason
