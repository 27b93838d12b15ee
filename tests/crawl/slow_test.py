"""The generated site as slow as sites are, in virtual time: pages take seconds, and who is busy asks for minutes."""

import itertools
from pathlib import Path

import pytest

from tests.crawl.manners_test import ALMOST, ROOT, Said, World, dying
from tests.crawl.site import Tree, reachable
from tests.crawl.site_test import Killed
from tests.crawl.virtual import Hosts
from tests.scale import scale

SLOW, BUSY, DELAY = 20.0, 120, 1.0
"""Seconds that a slow page takes, that a busy host asks for, and between two visits."""


class Busy(Tree):
    busy_seconds = BUSY

    def said(self, url: str, times: int) -> Said:
        path = url.removeprefix(ROOT)
        self.asked[path] = times
        status, headers, body = self.answer(path)
        return status, tuple(headers.items()), body

    @staticmethod
    def seconds(url: str) -> float:
        return SLOW if url.startswith(f"{ROOT}/slow") else 0.1


def crawled(folder: Path, connections: int, *kills: int) -> tuple[World, Hosts, Tree]:
    """A crawl that is killed when so many batches of pages were visited, and goes on each time."""
    folder.mkdir()
    world = World(folder, depth=20, delay_seconds=DELAY, connections=connections, alike=20)
    tree = Busy(scale(test=300, soak=5_000))
    hosts = Hosts(world.bench.clock, tree.said, {ROOT: b"User-agent: *\nDisallow: /private\n"}, tree.seconds)
    for batches in kills:
        with pytest.raises(Killed):
            world.crawl(dying(hosts.run, batches))
    world.crawl(hosts.run)
    return world, hosts, tree


@pytest.mark.parametrize("connections", [1, 4])
def test_a_slow_and_busy_site_is_fetched_whole_and_left_alone_as_long_as_it_asks(
    connections: int, tmp_path: Path
) -> None:
    world, hosts, tree = crawled(tmp_path / "a", connections)
    known = {url.removeprefix(ROOT): what for url, what in world.known().items()}
    pages = reachable(tree.pages)
    assert {path for path in pages if known[path] == "visited/page"} == {
        path for path in pages if not path.startswith("/broken")
    }
    assert known["/busy"] == "visited/page"
    assert known["/private/a"] == "refused/robots"
    first, second = (at for at, url in hosts.asked if url == f"{ROOT}/busy")
    assert second - first > BUSY - ALMOST
    assert not [at for at in hosts.times(ROOT) if first < at < first + BUSY - ALMOST]
    assert min(hosts.gaps(ROOT)) > DELAY - ALMOST
    slow = [path for path in pages if path.startswith("/slow")]
    assert len(slow) > 3
    behind = [after - at for (at, url), (after, _) in itertools.pairwise(hosts.asked) if "/slow" in url]
    # With one connection what comes next waits for a slow page; with others, not but for the last of a batch.
    assert min(behind) > (SLOW if connections == 1 else DELAY) - ALMOST
    assert connections == 1 or sorted(behind)[len(behind) // 2] < SLOW


def test_killed_in_the_middle_of_slow_pages_the_same_is_fetched(tmp_path: Path) -> None:
    calm, *_ = crawled(tmp_path / "calm", 4)
    world, hosts, _ = crawled(tmp_path / "killed", 4, 3, 5, 7)
    assert world.known() == calm.known()
    assert min(hosts.gaps(ROOT)) > DELAY - ALMOST
