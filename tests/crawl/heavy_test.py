"""However much a site sends, a crawl holds little of it at once."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crawl.site import Answer, Site
from tests.smalldisk import ROOT

PAGES, PAGE_BYTES = 80, 1 << 20
BOUND_MEGABYTES = 50
"""Of 84 MB of pages, of which a batch may hold 4 MiB and what is on its way."""


class Heavy(Site):
    """A site of large pages, as text that cannot be compressed to less than a half, or as pictures."""

    def __init__(self) -> None:
        super().__init__(PAGES)
        self.noise = random.Random(1).randbytes(PAGE_BYTES // 2).hex().encode()

    def answer(self, path: str) -> Answer:
        if path == "/light":
            return 200, {"Content-Type": "text/plain"}, b"Some words."
        if path == "/":
            return 200, {"Content-Type": "text/html"}, self.links([*self.numbers, "/picture-a", "/picture-b"])
        if path.startswith("/picture"):
            return 200, {"Content-Type": "image/png"}, self.noise
        if path in self.numbers:
            return 200, {"Content-Type": "text/plain"}, self.noise
        return super().answer(path)


@pytest.fixture
def site() -> Iterator[Heavy]:
    made = Heavy()
    yield made
    made.close()


def measured(folder: Path, *what: str) -> Any:
    command = [sys.executable, "-m", "tests.crawl.heavy", str(folder), *what]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_of_large_pages_a_batch_holds_a_few(site: Heavy, tmp_path: Path) -> None:
    found = measured(tmp_path, "pages", site.root)
    assert found["found"] == {"visited/not_text": 2, "visited/page": PAGES}
    assert {site.asked[path] for path in site.numbers} == {1}
    assert found["megabytes"] < BOUND_MEGABYTES


def test_of_a_sitemap_only_what_it_lists_is_held(tmp_path: Path) -> None:
    found = measured(tmp_path, "sitemap", "-")
    assert found["found"]["pages"] == 0  # it stands behind more elements than are looked at
    assert found["megabytes"] < 3 * found["found"]["bytes"] / 1e6
