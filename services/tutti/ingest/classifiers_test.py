"""Classifiers as work: trained from labelled folders, scores as columns, labels as rules."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.errors import AlreadyExists, InvalidField
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.call import Call
from tutti.chassis.tasks import TaskWorker
from tutti.chassis.tasks_test import Bench
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_PENDING, Artifact, CancelRequest, GetRequest
from tutti.contracts.ingest.v1 import (
    Classifier,
    ClassifierSpec,
    CreateClassifierRequest,
    CreateFilterRequest,
    CreateIngestRequest,
    Filter,
    FilterSpec,
    Ingest,
    IngestSpec,
    LearntLabel,
    Threshold,
    ToldTexts,
)
from tutti.corpus.documents import decisions
from tutti.ingest.commands.classifiers import RIGHT, table
from tutti.ingest.service import build

CALL = Call(role=Role.OPERATOR, request_id="", peer="test", deadline_seconds=10)
WORDS = {
    "fine": [
        "river",
        "meadow",
        "harvest",
        "village",
        "bread",
        "evening",
        "garden",
        "winter",
        "letter",
        "bridge",
        "orchard",
        "window",
    ],
    "junk": [
        "offer",
        "discount",
        "bargain",
        "coupon",
        "checkout",
        "voucher",
        "jackpot",
        "bonus",
        "casino",
        "pills",
        "replica",
        "prize",
    ],
}


def texts(label: str, count: int, seed: int) -> list[str]:
    source = Random(seed)
    return [" ".join(source.choices(WORDS[label] + ["the", "a", "of", "and", "with"], k=20)) for _ in range(count)]


class World:
    def __init__(self, folder: Path) -> None:
        self.bench = Bench(EmbeddedBlobs(folder / "blobs"), service="ingest")
        self.service = build(self.bench)
        self.bench.database.create(self.bench.metadata)
        api: Any = self.service.serves[0].api
        self.api = api
        self.labelled, self.pages = folder / "labelled", folder / "pages"
        self.pages.mkdir()
        for label in WORDS:
            (self.labelled / label).mkdir(parents=True)
        for number, text in enumerate(texts("fine", 30, 1)):
            (self.labelled / "fine" / f"{number}.txt").write_text(text)
        lines = [json.dumps({"text": text}) for text in texts("junk", 30, 2)]
        (self.labelled / "junk" / "all.jsonl").write_text("\n".join(lines))

    def train(self, name: str = "classifiers/web", request_id: str = "", **changes: Any) -> Classifier:
        self.ask(name, request_id, **changes)
        self.work()
        found: Classifier = self.api.GetClassifier(GetRequest(name=name), CALL)
        return found

    def ask(self, name: str = "classifiers/web", request_id: str = "", **changes: Any) -> Classifier:
        spec = ClassifierSpec(input_path=str(self.labelled), keeps="fine")
        spec.MergeFrom(ClassifierSpec(**changes))
        request = CreateClassifierRequest(request_id=request_id or name, name=name, spec=spec)
        found: Classifier = self.api.CreateClassifier(request, CALL).classifier
        return found

    def ingest(self, *classifiers: str) -> Ingest:
        spec = IngestSpec(input_path=str(self.pages), classifiers=classifiers)
        self.api.CreateIngest(CreateIngestRequest(request_id="i", name="ingests/i", spec=spec), CALL)
        self.work()
        found: Ingest = self.api.GetIngest(GetRequest(name="ingests/i"), CALL)
        return found

    def choose(self, name: str, done: Ingest, *classifiers: str, **thresholds: float) -> Filter:
        spec = FilterSpec(
            manifest_key=done.result.manifest_key,
            content_digest=done.result.content_digest,
            classifiers=classifiers,
            thresholds=[Threshold(rule=rule.replace("__", "."), value=value) for rule, value in thresholds.items()],
        )
        self.api.CreateFilter(CreateFilterRequest(request_id=name, name=name, spec=spec), CALL)
        self.work()
        found: Filter = self.api.GetFilter(GetRequest(name=name), CALL)
        return found

    def work(self) -> None:
        TaskWorker(self.bench, {kind.name: kind for kind in self.service.tasks}, holder="a").step()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.bench.database.close()


def test_a_labelled_folder_becomes_a_model_with_what_it_told_of_texts_that_were_held_out(world: World) -> None:
    done = world.train()
    assert (done.state, done.reason, done.spec.input_path) == (STATE_DONE, "", "")
    assert [(each.label, each.trained + each.held_out) for each in done.labels] == [("fine", 30), ("junk", 30)]
    assert sum(each.texts for each in done.held_out) == sum(each.held_out for each in done.labels)
    assert world.train("classifiers/again").model_digest == done.model_digest
    (world.labelled / "fine" / "0.txt").write_text("a letter from the village")
    assert world.train("classifiers/other").model_digest != done.model_digest


def test_scores_are_columns_and_labels_are_rules_whose_thresholds_change_without_a_text(world: World) -> None:
    name = f"web@{world.train().model_digest}"
    for number, text in enumerate([*texts("fine", 3, 7), *texts("junk", 2, 8)]):
        (world.pages / f"{number}.txt").write_text(text)
    done = world.ingest(name)
    assert (done.state, done.documents) == (STATE_DONE, 5)
    first = world.choose("filters/a", done, name)
    assert [(each.rule, each.documents) for each in first.rules] == [("web.junk", 2)]
    rows = [
        row
        for blob in world.bench.blobs.list("ingest/decisions/")
        for row in decisions.decode(world.bench.blobs.get(blob.key)).to_pylist()
    ]
    assert len(rows) == 2
    assert all(row["rule"] == "web.junk" and row["value"] >= row["threshold"] >= 0.5 for row in rows)
    assert world.choose("filters/b", done, name, web__junk=1.1).rejected == 0
    with pytest.raises(InvalidField, match=r"web\.spam"):
        world.choose("filters/c", done, name, web__spam=0.5)


def test_a_classifier_that_is_not_there_is_refused_at_the_door(world: World) -> None:
    nowhere = f"web@blake3:{'0' * 64}"
    for wrong in ("web", "web@", "Web@blake3:" + "0" * 64):
        with pytest.raises(InvalidField, match=r"spec\.classifiers"):
            world.ingest(wrong)
    done = world.ingest()
    assert done.state == STATE_FAILED
    with pytest.raises(InvalidField, match=r"spec\.classifiers"):
        world.choose("filters/a", Ingest(result=Artifact(manifest_key="x", content_digest="y")), nowhere)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"input_path": "relative"}, "input_path"),
        ({"keeps": "Not/A/Folder"}, "keeps"),
        ({"most_false": 1.0}, "most_false"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_by_field(world: World, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField, match=rf"spec\.{field}"):
        world.train(**changes)


def test_what_cannot_be_learnt_fails_the_work_without_its_path(world: World) -> None:
    failed = world.train(keeps="good")
    assert failed.state == STATE_FAILED
    assert "'good'" in failed.reason
    assert str(world.labelled) not in failed.reason


def test_a_name_keeps_what_was_trained_under_it_and_nothing_that_failed_or_was_cancelled(world: World) -> None:
    failed = world.train(keeps="good")
    assert world.ask(keeps="good") == failed  # the same request, as if its answer had been lost
    with pytest.raises(AlreadyExists):
        world.ask(keeps="fine")
    again = world.ask(request_id="again")
    assert (again.state, again.reason, again.spec.keeps) == (STATE_PENDING, "waits for a worker", "fine")
    assert again.revision > failed.revision
    assert not again.HasField("ended_at")
    world.api.CancelClassifier(CancelRequest(name=again.name, request_id="cancel"), CALL)
    done = world.train(request_id="at last")
    assert (done.state, done.reason) == (STATE_DONE, "")
    assert world.ask(request_id="at last") == world.ask(request_id="once more") == done
    with pytest.raises(AlreadyExists):
        world.ask(request_id="another", most_false=0.5)


def test_the_share_that_a_classifier_told_right_has_its_interval_and_its_number() -> None:
    labels = [LearntLabel(label="good"), LearntLabel(label="bad")]
    counts = (("good", "good", 13), ("bad", "bad", 3), ("bad", "good", 1))
    held = [ToldTexts(label=label, language="en", told=told, texts=texts) for label, told, texts in counts]
    good, bad = (row[RIGHT] for row in table(Classifier(labels=labels, held_out=held)))
    assert good == "100.0% (77.2% to 100.0%, n = 13)"
    assert bad.startswith("75.0%")
    assert "n = 4" in bad
