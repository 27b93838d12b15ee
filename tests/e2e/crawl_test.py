"""A web site becomes committed checkpoints: once, again, elsewhere, killed, changed."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.exhibit_site import serving

from tests.browser.reader import assert_readable
from tests.e2e.command import checkpoints, start, tutti
from tests.e2e.site import SEED, Counting, crawl, digests
from tests.faults.processes import until


@pytest.fixture(scope="module")
def site(pages: Path) -> Counting:
    return Counting(pages)


@pytest.fixture(scope="module")
def address(site: Counting) -> Iterator[str]:
    with serving(site) as where:
        yield where


@pytest.fixture(scope="module")
def first(data_dir: Path, address: str) -> Any:
    result = tutti(*crawl(data_dir, address))
    assert result.code == 0, result.err
    return result.json()


def reused(summary: Any) -> list[str]:
    return [each["name"] for each in summary["run"]["stages"] if each["reused"]]


def test_a_site_becomes_checkpoints_and_every_url_has_its_outcome(first: Any, site: Counting) -> None:
    assert list(checkpoints(first)) == [2]
    counts = {each["what"]: each["pages"] for each in first["crawl"]["counts"]}
    assert counts["visited/page"] == 1 + len(site.names) + 1 + 5  # the index, the documentation, six days
    assert counts["visited/no_index"] == 1
    assert counts["visited/not_text"] == 1
    assert counts["refused/robots"] == 1
    assert counts["left/trap"] > 0
    assert not site.asked["/private/notes.html"]


def test_what_may_not_be_kept_is_not_and_what_a_server_lacks_is_a_rejection(first: Any, data_dir: Path) -> None:
    draft = tutti("trace", f"{SEED}draft.html", "--down", "--data-dir", data_dir)
    assert draft.code != 0
    gone = tutti("trace", f"{SEED}gone.html", "--down", "--data-dir", data_dir)
    assert "rejected: not_ok" in gone.err
    name = first["crawl"]["name"]
    listed = tutti("crawls", "pages", name, "--what", "visited/not_ok", "-o", "json", "--data-dir", data_dir)
    assert {"url": f"{SEED}gone.html", "what": "visited/not_ok", "status": 404, "depth": 1} in [
        {key: each[key] for key in ("url", "what", "status", "depth")} for each in listed.json()
    ]


def test_its_report_tells_what_became_of_urls_and_is_read_in_a_browser(first: Any) -> None:
    place = Path(first["report"])
    told = place.read_text()
    assert all(each["what"] in told for each in first["crawl"]["counts"])
    assert f"{SEED}picture.png" in told
    assert_readable(place)


def test_what_a_run_made_is_told_to_people_and_to_scripts(first: Any, data_dir: Path) -> None:
    kept = next(each for each in told(data_dir, "documents", "find", "--what", "kept") if "/docs/" in each["source"])
    shown = told(data_dir, "documents", "show", kept["source"])
    assert (shown["name"], shown["fate"]) == (kept["document"], "")
    rejected, dropped = (told(data_dir, "documents", what) for what in ("rejected", "duplicates"))
    assert {"rejected/not_ok", "rejected/binary"} <= {each["what"] for each in rejected}
    assert len(dropped) == first["dedup"]["duplicates"]
    status = told(data_dir, "crawl", "status", first["run"]["name"])
    assert status["crawl"]["name"] == first["crawl"]["name"]
    dataset = told(data_dir, "datasets", "show", first["dataset"]["name"])
    assert dataset["languages"] == first["dataset"]["languages"]
    assert first["crawl"]["name"] in dataset["ancestry"]


def told(data_dir: Path, *command: str) -> Any:
    """What a command says to scripts; it has something to say to people, too."""
    for_people = tutti(*command, "--data-dir", data_dir)
    assert for_people.code == 0, for_people.err
    assert for_people.out.strip()
    return tutti(*command, "-o", "json", "--data-dir", data_dir).json()


def test_where_the_site_lies_reaches_no_event_and_no_answer(first: Any, data_dir: Path, address: str) -> None:
    looked = [path for path in (data_dir / "log").rglob("*") if path.is_file()]
    assert [path for path in looked if address.encode() in path.read_bytes()] == []
    assert address not in json.dumps(first)


def test_again_nothing_is_asked_for_and_another_edition_is_a_crawl_of_its_own(
    first: Any, data_dir: Path, address: str, site: Counting
) -> None:
    site.asked.clear()
    again = tutti(*crawl(data_dir, address)).json()
    assert reused(again) == ["crawl", "ingest", "filter", "dedup", "tokenization", "train"]
    assert not site.asked
    later = tutti(*crawl(data_dir, address, "input.crawl.edition=2")).json()
    assert reused(later) == ["filter", "dedup", "tokenization", "train"]
    assert later["crawl"]["site_digest"] == first["crawl"]["site_digest"]
    assert digests(later) == digests(first)


def test_since_an_earlier_run_what_has_not_changed_is_kept_once_and_the_documents_are_those_of_a_whole_crawl(
    first: Any, data_dir: Path, address: str
) -> None:
    run = first["run"]["name"]
    later = tutti(*crawl(data_dir, address, f"input.crawl.since={run}")).json()
    assert digests(later) == digests(first)
    found = later["crawl"]
    assert (found["site_digest"], found["spec"]["since"]) == (first["crawl"]["site_digest"], first["crawl"]["name"])
    counts = {each["what"]: each["pages"] for each in found["counts"]}
    assert found["identical"] == counts["visited/page"] + counts["visited/not_text"]
    gone = tutti(*crawl(data_dir, address, "input.crawl.since=crawls/unheard-of"))
    assert (gone.code, "input.crawl.since" in gone.err) == (2, True)


def test_a_page_that_changed_changes_the_site_and_the_dataset(
    first: Any, tmp_path: Path, pages: Path, data_dir: Path
) -> None:
    site = Counting(pages)
    name = f"/docs/{site.names[0]}"
    site.changed[name] = (200, {"Content-Type": "text/plain"}, b"Now it says something else. " * 20)
    with serving(site) as address:
        changed = tutti(*crawl(data_dir, address, "input.crawl.edition=changed")).json()
    assert changed["crawl"]["site_digest"] != first["crawl"]["site_digest"]
    assert digests(changed)["ingest"] != digests(first)["ingest"]


def test_killed_and_interrupted_elsewhere_the_same_command_goes_on_where_the_site_lies_by_now(
    first: Any, tmp_path: Path, pages: Path
) -> None:
    """Its host is killed, its crawl goes on; then Ctrl-C ends it, and the site moves before the same command."""
    folder, before, after = tmp_path / "other", Counting(pages), Counting(pages)
    slow = "input.crawl.delay_seconds=0.1"  # a batch takes as long as its delays: a few pages are recorded at a time
    with serving(before) as address:
        process = start(*crawl(folder, address, slow))
        until(lambda: before.asked.total() >= 8, seconds=60, what="8 questions")
        children = json.loads((folder / "processes.json").read_text())["children"]
        os.kill(next(each["pid"] for each in children if each["name"] == "host"), signal.SIGKILL)
        until(lambda: before.asked.total() >= 24, seconds=60, what="24 questions")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=400)
    assert process.returncode == 130, err
    with serving(after) as address:
        result = tutti(*crawl(folder, address, slow))
    assert result.code == 0, result.err
    summary = result.json()
    assert err.splitlines()[-1].endswith(f"the same command resumes {summary['run']['name']}")
    assert summary["crawl"]["site_digest"] == first["crawl"]["site_digest"]
    assert digests(summary) == digests(first)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("input.crawl.seeds=ftp://a.example/", "input.crawl.seeds"),
        ("input.crawl.connect.exhibit.test=localhost", "such as 127.0.0.1:8080"),
        ("input.crawl.contact=", "input.crawl.contact"),
        ("input.limit=3", "input.crawl.pages is the limit"),
        ("input.crawl.dept=3", "the nearest is input.crawl.depth"),
    ],
)
def test_a_wrong_value_is_named_before_anything_is_asked(
    override: str, said: str, data_dir: Path, address: str, first: Any
) -> None:
    result = tutti(*crawl(data_dir, address, override))
    assert result.code == 2
    assert said in result.err


def test_a_site_that_is_not_there_fails_with_what_became_of_its_urls(data_dir: Path, first: Any) -> None:
    result = tutti(*crawl(data_dir, "127.0.0.1:9", "input.crawl.edition=nobody"))
    assert result.code == 1
    assert "the crawl brought no page" in result.err
    assert "refused/robots_unavailable" in result.err
