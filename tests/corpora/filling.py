"""A stage on a disk that is full, again and again with more room, and then with enough: what became of it each time.

Run as `python -m tests.corpora.filling DISK STAGE`, where DISK is a small file system of its own; prints JSON.
"""

import json
import os
import shutil
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from tests.corpora.stages import Stage, Stages, stages
from tutti.contracts.common.v1 import STATE_DONE, STATE_RUNNING, State
from tutti.contracts.dedup.v1 import Lines
from tutti.contracts.ingest.v1 import CrawlSpec, CreateCrawlRequest
from tutti.platform.pool import ProcessPool
from tutti.records.canonical import file_digest

BLOCK = 1 << 12
GROWTH = 1.5
PAGES, SITE = 20, 9
SAID = 1_500


def words(number: int, count: int) -> str:
    return " ".join(f"word{number * at % 9973}" for at in range(count))


class Answers(BaseHTTPRequestHandler):
    """A site whose pages link to all of them."""

    asked: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        self.asked[self.path] += 1
        number = "".join(filter(str.isdecimal, self.path)) or "0"
        links = "".join(f"<a href='/{each}'>{each}</a>" for each in range(SITE))
        body = f"<p>{words(int(number), 20_000)}</p>{links}".encode()
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing: what is printed is JSON."""


@contextmanager
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextmanager
def filled(disk: Path, room: int) -> Iterator[None]:
    """About so many bytes of the disk are left."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        if (size := shutil.disk_usage(disk).free - room) > 0:
            os.posix_fallocate(file.fileno(), 0, size)
    yield
    ballast.unlink()


def crawl(made: Stages, root: str) -> Callable[[], Stage]:
    spec = CrawlSpec(seeds=[root], contact="me@a.example", depth=3, allow_private=True, skip_sitemaps=True)
    return lambda: made.ask("ingest", "Crawl", CreateCrawlRequest, spec)


def chain(made: Stages, pages: Path, name: str) -> Callable[[], Stage]:
    """Asks for a stage over what those before it made."""
    ask: Callable[[Any], Stage]
    found: Any = None
    for stage, ask in (
        ("ingest", lambda _: made.ingest(pages)),
        ("filter", made.filter),
        ("dedup", made.dedup),
        ("tokenization", made.tokenization),
        ("index", made.index),
    ):
        if stage == "dedup" and name == "lines":
            return lambda: made.dedup(found, lines=Lines(unit="line", most=2, least_characters=1, left=1))
        if stage == name:
            return lambda: ask(found)
        found = ask(found).done()
    raise LookupError(name)


def damaged(blobs: Path) -> list[str]:
    """Blobs that do not hold what their names say."""
    files = [path for path in blobs.rglob("*") if path.is_file() and "manifests" not in path.parts]
    named = [(path, path.name.partition(".")[0]) for path in files if "tokenizers" not in path.parts]
    return [str(path) for path, name in named if len(name) == 64 and file_digest(path) != f"blake3:{name}"]


def tried(stage: Stage, disk: Path, scratch: Path) -> Iterator[Mapping[str, object]]:
    """With more room each time, until it has enough, or fails."""
    room, state = 0, STATE_RUNNING
    while state == STATE_RUNNING:
        with filled(disk, room):
            found = stage.step()
        state = found.state
        yield {
            "room": room,
            "state": State.Name(state),
            "reason": found.reason,
            "waits": stage.waits(),
            "damaged": damaged(disk / "blobs"),
            "scratch": sorted(str(path.relative_to(scratch)) for path in scratch.rglob("*")),
        }
        stage.bench.clock.advance(60)
        room = max(int(GROWTH * room), BLOCK)


def result(found: Any) -> str:
    """What a stage made; of a crawl, whose archives know when that was, which pages it has."""
    assert found.state == STATE_DONE, found.reason
    return str(getattr(found, "site_digest", "") or found.result.content_digest)


def main(disk: Path, name: str) -> None:
    pages, scratch = disk / "pages", disk / "scratch"
    pages.mkdir()
    for number in range(PAGES):
        said = "\n".join(f"Line {line} is in many pages." for line in range(number, number + SAID))
        (pages / f"{number}.txt").write_text(f"{said}\n{words(number, 4_000)}")
    scratch.mkdir()
    tempfile.tempdir = str(scratch)
    with closing(ProcessPool(1, scratch=scratch)) as pool, site() as root, stages(disk, pool) as made:
        ask = crawl(made, root) if name == "crawl" else chain(made, pages, name)
        stage = ask()
        found = list(tried(stage, disk, scratch))
        asked = dict(Answers.asked)
        same = result(stage.get()) == result(ask().done())
    json.dump({"tried": found, "same": same, "asked": asked}, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
