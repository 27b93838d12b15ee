"""Answers that an annotator writes in a campaign: reviewed, published, filtered, trained on, traced, and retracted."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tools.letters import write

from tests.e2e.command import Result, tutti
from tests.faults.processes import until
from tests.web.annotation_test import Annotator
from tests.web.hosted import Visitor
from tutti.client import connect
from tutti.contracts.annotation.v1 import CAMPAIGN_STATE_PUBLISHED
from tutti.contracts.common.v1 import GetRequest

HELD_OUT = "please sort: never train on this prompt of the final comparison, it is held out"
ASKED = [f"sort: {word}" for word in ("pear fig", "kiwi date", "plum lime", "mango nut")] + [HELD_OUT]
ANSWERS = {prompt: f"sorted {number}" for number, prompt in enumerate(ASKED)}
PERSONAL, RETRACTED = ASKED[0], ASKED[1]
ANSWERS[PERSONAL] = "Write to jane.roe@mail.com."
RECIPE = """
name: demonstrations
size: tiny
template: chat@1
input: {path: texts.jsonl}
dedup: {near: 0}
tokenizer: {vocabulary: 300}
data: {context: 64}
train: {steps: 1, microbatches: 2}
stages:
  held-out: {kind: conversations, path: final.jsonl}
  published: {kind: demonstrations, from: campaigns/trial}
  clean:
    kind: conversations
    from: {demonstrations: published, held_out: held-out}
    rules: [no_pii]
  control: {kind: conversations, path: control.jsonl, from: {held_out: held-out}, rules: [no_pii]}
  tuned: {kind: sft, from: {initial: train, demonstrations: clean}, steps: 1, microbatches: 2}
"""


def lines(*records: object) -> str:
    return "".join(json.dumps(each) + "\n" for each in records)


def user(content: str) -> Mapping[str, str]:
    return {"role": "user", "content": content}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe and its files; the control has what is left after the retraction."""
    folder = tmp_path_factory.mktemp("files")
    write(folder, texts=12, demonstrations=1, prompts=1)
    (folder / "final.jsonl").write_text(lines({"messages": [user(HELD_OUT)]}))
    kept = [each for each in ASKED if each != RETRACTED]
    demonstrated = [{"messages": [user(each), {"role": "assistant", "content": ANSWERS[each]}]} for each in kept]
    (folder / "control.jsonl").write_text(lines(*demonstrated))
    pairs = [{"prompt": [user(each)], "answers": ["first", "another answer"]} for each in ASKED]
    (folder / "pairs.jsonl").write_text(lines(*pairs))
    (folder / "guideline.md").write_text("Prefer the sorted answer.")
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


def run(files: Path, data_dir: Path) -> dict[str, Any]:
    """The stages of a run by name."""
    result = tutti("run", files / "recipe.yaml", "-o", "json", "--data-dir", data_dir)
    assert result.code == 0, result.err
    return {stage["name"]: stage for stage in result.json()["run"]["stages"]}


def annotate(data_dir: Path, files: Path) -> None:
    """Create the campaign, judge every pair and write an answer to each, until the campaign is published."""

    def command(*words: str | Path) -> Result:
        found = tutti(*words, "--data-dir", data_dir)
        assert found.code == 0, found.err
        return found

    options = ("--pairs", files / "pairs.jsonl", "--guideline", files / "guideline.md", "--axis", "helpful")
    command("campaigns", "create", "trial", *options, "--qualification", "0", "0", "--controls", "0")
    [invited] = command("campaigns", "invite", "trial", "Ada", "-o", "json").json()
    link = urlsplit(invited["url"])
    ada = Annotator(Visitor(f"{link.scheme}://{link.netloc}"), campaign="trial")
    ada.visitor.post("/login", {"token": link.path.rpartition("/")[2], "next": "/annotation"})
    until(lambda: ada.state().json["state"] != "no_pairs", seconds=60, what="pairs")
    pairs = ada.lease()
    assert len(pairs) == len(ASKED)
    for pair in pairs:
        answer = ANSWERS[pair["prompt"][0]["content"]]
        assert ada.judge(pair, demonstration=answer).json["refused"] == []
    command("campaigns", "close", "trial")

    with connect(data_dir) as client:
        name = GetRequest(name="campaigns/trial")
        published = CAMPAIGN_STATE_PUBLISHED
        until(lambda: client.annotation.GetCampaign(name).state == published, seconds=60, what="its publication")


def test_what_people_write_is_published_filtered_and_trained_on_until_it_is_retracted(
    data_dir: Path, files: Path, tmp_path: Path
) -> None:
    annotate(data_dir, files)
    written = tutti("demonstrations", "written", "trial", "-o", "json", "--data-dir", data_dir).json()
    ids = {each["messages"][0]["content"]: each["id"] for each in written}
    accepted = tutti("demonstrations", "accept", "trial", *ids.values(), "--data-dir", data_dir)
    assert accepted.code == 0, accepted.err

    published = tutti("demonstrations", "publish", "trial", "--name", "first", "-o", "json", "--data-dir", data_dir)
    assert published.code == 0, published.err
    for wanted, name in (("trl", "trl.jsonl"), ("hf", "first")):
        target = ("--to", tmp_path / name, "--format", wanted)
        exported = tutti("demonstrations", "export", "first", *target, "--data-dir", data_dir)
        assert exported.code == 0, exported.err
    found = [json.loads(each) for each in (tmp_path / "first" / "train.jsonl").read_text().splitlines()]
    assert {each["messages"][0]["content"]: each["messages"][1]["content"] for each in found} == ANSWERS
    assert published.json()["content_digest"] in (tmp_path / "first" / "README.md").read_text()
    trl = [json.loads(each) for each in (tmp_path / "trl.jsonl").read_text().splitlines()]
    assert {(each["prompt"][0]["content"], each["completion"][0]["content"]) for each in trl} == set(ANSWERS.items())

    stages = run(files, data_dir)
    assert stages["published"]["content_digest"] == published.json()["content_digest"]
    clean = tutti("conversations", "show", stages["clean"]["resource"], "-o", "json", "--data-dir", data_dir).json()
    assert {each["reason"]: int(each["records"]) for each in clean["rejected"]} == {"held_out": 1, "no_pii_emails": 1}
    above = tutti("trace", stages["tuned"]["resource"], "--data-dir", data_dir).out
    for resource in (stages["clean"]["resource"], stages["published"]["resource"], "campaigns/trial"):
        assert resource in above

    retracted = ("--reason", "it is not true", "--data-dir", data_dir)
    assert tutti("demonstrations", "reject", "trial", ids[RETRACTED], *retracted).code == 0
    again = run(files, data_dir)
    assert {name for name, each in again.items() if not each["reused"]} == {"published", "clean", "tuned"}
    assert again["clean"]["content_digest"] == again["control"]["content_digest"]
    assert again["tuned"]["content_digest"] != stages["tuned"]["content_digest"]
