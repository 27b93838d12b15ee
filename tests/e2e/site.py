"""The exhibit as a site that counts what it is asked for, and a tiny run over it."""

from collections import Counter
from pathlib import Path
from typing import Any

from tools.exhibit_site import Answer, Site

from tests.e2e.command import tiny

SEED = "http://exhibit.test/"


class Counting(Site):
    """Counts what is asked for; `changed` pages answer otherwise than their files."""

    def __init__(self, pages: Path) -> None:
        super().__init__(pages)
        self.asked: Counter[str] = Counter()
        self.changed: dict[str, Answer] = {}

    def answer(self, target: str) -> Answer:
        self.asked[target] += 1
        return self.changed.get(target) or super().answer(target)


def crawl(data_dir: Path, address: str, *overrides: str) -> list[str | Path]:
    """The arguments of a run over the site that answers at the address."""
    keys = {
        "seeds": SEED, "contact": "operator@exhibit.test", "alike": "5", "delay_seconds": "0", "connections": "4",
        "connect.exhibit.test": address,
    }  # fmt: skip
    sets = [f"input.crawl.{key}={value}" for key, value in keys.items()]
    return tiny(data_dir, Path(), "input.path=", "input.limit=0", "train.steps=2", *sets, *overrides)


def digests(summary: Any) -> dict[str, str]:
    """Of every stage behind the crawl, whose archives hold the time."""
    return {each["name"]: each["content_digest"] for each in summary["run"]["stages"] if each["name"] != "crawl"}
