"""The annotator's page: from a key to the next pair on the screen, and to the answer that the judgement is durable.

One annotator in a real browser beside 50 others over HTTP, each with a judgement a second, in a campaign of 100,000
pairs. The platform, the others and the browser share the machine.
"""

import json
import random
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from uuid import UUID

from playwright.sync_api import Page
from tests.browser.campaign import CampaignServer, campaign_server
from tests.browser.chromium import NAMES, chromium
from tests.browser.login import log_in
from tests.web.hosted import Visitor

from benchmarks.pairs import median, percentile
from benchmarks.program import NotHere, main, scratch
from benchmarks.table import Row, at_most
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.work.work import publish, put_named
from tutti.contracts.annotation.v1 import AnswerSource
from tutti.corpus.conversations.conversations import Answer, Message, Role, to_lines
from tutti.corpus.conversations.conversationset import Lines
from tutti.records.canonical import bytes_digest
from tutti.records.manifest import Kind, Manifest

GOAL_PAINTED, GOAL_DURABLE = 100.0, 200.0
NAME, ME = "measured", "me"
OPEN_SECONDS, STEADY_SECONDS = 600.0, 5.0
# Before any script of the page: from a key to the next prompt on the screen, and until a judgement left the outbox.
PROBE = """
(() => {
  window.painted = []; window.durable = [];
  const added = new Map();
  let pressed = null;
  addEventListener("keydown", (event) => { pressed = event.timeStamp; }, true);
  document.addEventListener("DOMContentLoaded", () => {
    new MutationObserver(() => {
      const from = pressed;
      pressed = null;
      if (from === null) return;
      requestAnimationFrame(() => {
        const after = new MessageChannel();
        after.port1.onmessage = () => window.painted.push(performance.now() - from);
        after.port2.postMessage(0);
      });
    }).observe(document.getElementById("prompt"), { childList: true });
  });
  const { put, delete: remove } = IDBObjectStore.prototype;
  IDBObjectStore.prototype.put = function (record, ...rest) {
    if (this.name === "outbox") added.set(record.id, performance.now());
    return put.call(this, record, ...rest);
  };
  IDBObjectStore.prototype.delete = function (key) {
    const id = key[2];
    if (this.name === "outbox" && added.has(id)) window.durable.push(performance.now() - added.get(id));
    added.delete(id);
    return remove.call(this, key);
  };
})();
"""
PROMPT = "document.getElementById('prompt').innerText"


def measure(quick: bool) -> list[Row]:
    pairs, others, keys = (2_000, 10, 30) if quick else (100_000, 50, 200)
    if not _has_browser():
        raise NotHere("no browser: apt-get install chromium")
    with scratch("annotation") as folder, campaign_server(Path(folder) / "data") as server:
        begun = time.monotonic()
        users = [f"other {number}" for number in range(others)]
        source = _answers(server, pairs)
        server.campaign(NAME, ME, *users, pairs="", answers=[source], wait=OPEN_SECONDS)
        opened = time.monotonic() - begun
        with _judging(server, users), chromium() as browser:
            threading.Event().wait(STEADY_SECONDS)
            page = browser.new_page()
            page.add_init_script(PROBE)
            log_in(page, f"{server.url}/login/{server.link(ME)}?next=/annotation/{NAME}")
            page.locator("#panel-go").click(timeout=60_000)
            _judge(page, keys)
            painted, durable = page.evaluate("window.painted"), page.evaluate("window.durable")
    beside = f"beside {others} others, of {pairs:,} pairs, {keys} keys; the campaign opened after {opened:.0f} s"
    return [
        _row("key to next pair painted, p95", painted, GOAL_PAINTED, beside),
        _row("key to durable, p95", durable, GOAL_DURABLE, beside),
    ]


def _row(what: str, values: list[float], goal: float, beside: str) -> Row:
    note = f"{beside}; median {median(values):.0f} ms, longest {max(values):.0f} ms"
    return Row(what, unit="ms", ours=percentile(values, 95), goal=at_most(goal), note=note)


def _judge(page: Page, keys: int) -> None:
    """Press a key for every pair, a third of a second after it was shown."""
    page.locator("#pair").wait_for()
    for number in range(keys):
        before = page.evaluate(PROMPT)
        page.keyboard.press("12345"[number % 5])
        page.wait_for_function(f"before => {PROMPT} !== before", arg=before)
        page.wait_for_timeout(300)
    page.wait_for_function("() => document.getElementById('saved').dataset.waiting === '0'")


def _answers(server: CampaignServer, pairs: int) -> AnswerSource:
    """A sample with two answers to each of so many prompts, in the store of the platform."""
    blobs = EmbeddedBlobs(server.data_dir / "blobs")
    lines = to_lines(
        Answer(
            (Message(Role.USER, f"Question {number // 2}?"),),
            number,
            f"Answer {number}, of some length. " * 6,
            (),
            "end",
        )
        for number in range(2 * pairs)
    )
    key = put_named(blobs, "sampling/lines", lines, ".jsonl")
    written = Lines(key, bytes_digest(lines), len(lines), 2 * pairs).to_json()
    made = publish(blobs, "sampling", Manifest(Kind.SAMPLE, {"lines": written}, (), "benchmark"), data_bytes=0)
    return AnswerSource(sample="samples/measured", manifest_key=made.manifest_key, content_digest=made.content_digest)


@contextmanager
def _judging(server: CampaignServer, users: list[str]) -> Iterator[None]:
    """Others judge in a process of their own."""
    context = get_context("spawn")
    stop = context.Event()
    links = [server.link(user) for user in users]
    process = context.Process(target=_others, args=(server.url, links, stop))
    process.start()
    try:
        yield
    finally:
        stop.set()
        process.join(60)


def _others(url: str, links: list[str], stop: Event) -> None:
    threads = [threading.Thread(target=_other, args=(url, link, number, stop)) for number, link in enumerate(links)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def _other(url: str, link: str, seed: int, stop: Event) -> None:
    """Lease four pairs and judge one about every second, until it is told to stop."""
    draw, visitor = random.Random(seed), Visitor(url)
    visitor.log_in(link)
    page = visitor.get(f"/annotation/{NAME}").text
    found = re.search(r'data-form-token="(\w+)"', page)
    assert found is not None
    state = visitor.get(f"/annotation/{NAME}/state.json").json
    headers = {"x-form-token": found[1], "content-type": "application/json", "sec-fetch-site": "same-origin"}

    def call(name: str, **body: Any) -> Any:
        return visitor.send("POST", f"/annotation/api/{name}", json.dumps({"campaign": NAME, **body}), headers).json

    while not stop.is_set():
        for pair in call("leases", count=4).get("pairs", []):
            if stop.wait(draw.uniform(0.5, 1.5)):
                return
            judgement = {
                "id": str(UUID(int=draw.getrandbits(128), version=4)),
                "pair": pair["id"],
                "guideline": state["guideline"]["version"],
                "answers": {"helpful": draw.randint(-2, 2)},
                "kind": "judged",
                "shown_ms": 900,
            }
            call("judgements", judgements=[judgement])


def _has_browser() -> bool:
    return any(shutil.which(name) for name in NAMES)


if __name__ == "__main__":
    main("annotation", __doc__, measure)
