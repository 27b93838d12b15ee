"""The past of a model on the chat page: its trainings, prompts of them, and the words of an answer in their data."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import talks
from tests.chat.platforms import CHAT_BUILDS
from tests.chat.replicas import MODEL
from tests.chat.talks_test import FILTER, NAME, OTHERS, World, ident_of
from tests.web.hosted import Hosted, hosted
from tutti.backbone.connect import open_blobs
from tutti.chassis.identity.principal import DEFAULT_TENANT
from tutti.chassis.work.work import publish, put_file
from tutti.checkpoints.keys import manifest_of
from tutti.contracts.chat.v1 import DEPLOYMENT_STATE_STOPPED, CreateDeploymentRequest, Deployment, DeploymentSpec
from tutti.contracts.chat.v1 import Answer as RecordedAnswer
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, Checkpoint
from tutti.contracts.common.v1 import STATE_DONE, GetRequest, Training
from tutti.contracts.evaluation.v1 import (
    STANDING_ACTIVE,
    ComparedSample,
    Comparison,
    ComparisonSpec,
    Release,
    ReleasedComparison,
    ReleaseSpec,
)
from tutti.contracts.sampling.v1 import Sample
from tutti.contracts.scheduler.v1 import Job, JobSpec
from tutti.contracts.tokenization.v1 import Dataset, Index
from tutti.corpus.conversations.conversations import Conversation, Message, Role, to_lines
from tutti.corpus.spans.building import build as build_index
from tutti.corpus.spans.manifest import IndexBody
from tutti.corpus.tokens.dataset import DatasetBody, ShardEntry, Split
from tutti.corpus.tokens.tokenshard import TokenRun, encode_token_shard
from tutti.lineage.service import build as build_lineage
from tutti.records.canonical import bytes_digest
from tutti.records.manifest import Kind, Manifest
from tutti.sampling.service import build as build_sampling

COUNT = 60
REFUSALS, UNKNOWN = 10, "I do not know that."
DOCUMENT = "ab" * 32


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    builds = {**CHAT_BUILDS, "lineage": build_lineage, "sampling": build_sampling}
    with hosted(tmp_path_factory.mktemp("platform"), builds=builds) as served:
        yield World(served)


def published(served: Hosted, conversations: list[Conversation]) -> str:
    """Store conversations as ingest does; the key of their manifest."""
    ordered: list[Conversation] = sorted(conversations, key=lambda each: each.digest)
    data = to_lines(ordered)
    digest = bytes_digest(data)
    key = f"ingest/conversations/{digest.removeprefix('blake3:')}.jsonl"
    lines: Any = {"blob": key, "bytes": len(data), "bytes_digest": digest, "count": len(conversations)}
    manifest = Manifest(Kind.CONVERSATIONS, {"lines": lines}, (), "test")
    with contextlib.closing(open_blobs(served.data_dir.blobs_url)) as blobs:
        blobs.put_if_absent(key, data)
        blobs.put_if_absent(f"ingest/conversations/manifests/{digest[7:]}.json", manifest.encode())
    return f"ingest/conversations/manifests/{digest[7:]}.json"


def refused(number: int) -> Conversation:
    """A demonstration of a prompt that the model does not know."""
    return Conversation((Message(Role.USER, f"foreign {number}"), Message(Role.ASSISTANT, UNKNOWN)), "train")


def past(world: World) -> Any:
    found = world.ada.get("past/toy")
    assert found.status == 200, found.text
    return found.json


def test_a_model_whose_training_is_not_recorded_has_no_past(world: World) -> None:
    assert past(world) == {"trainings": [], "whole": False, "prompts": [], "often": None, "subjects": []}


def test_a_model_that_does_not_serve_is_refused(world: World) -> None:
    assert world.ada.get("past/other").status == 404


def test_a_scheduler_that_hangs_is_named(world: World) -> None:
    with world.served.hung("scheduler"):
        found = world.ada.get("past/toy")
    assert found.status == 503
    assert "scheduler did not answer" in found.json["error"]["message"]


def test_a_release_that_cannot_be_read_is_named_with_who_is_missing(world: World) -> None:
    name, release = "deployments/ended", "releases/of-ended"
    world.served.plant("chat", Deployment(name=name, state=DEPLOYMENT_STATE_STOPPED, release=release))
    person = world.people["ada"]
    world.served.plant(
        "chat", RecordedAnswer(name="answers/ended", user=person, tenant=DEFAULT_TENANT, deployment=name)
    )
    with world.served.hung("evaluation"):
        found = world.ada.get("why/ended").json["release"]
    assert (found["name"], found["standing"]) == (release, "")
    assert "evaluation did not answer" in found["missing"]
    assert "does not exist" in world.ada.get("why/ended").json["release"]["missing"]


def test_the_past_has_every_training_and_prompts_of_the_demonstrations(world: World) -> None:
    made = [*talks.demonstrations(COUNT), *(refused(number) for number in range(REFUSALS))]
    tuned = JobSpec(
        steps=40,
        dataset_manifest_key=published(world.served, made),
        typed_training=Training(program="sft", part="train"),
        initial="checkpoints/base/0/7",
    )
    world.served.plant("scheduler", Job(name="jobs/chat", spec=tuned))
    expected = {"program": "sft", "steps": 40, "data": f"{COUNT + REFUSALS} conversations"}
    found = past(world)
    assert found["trainings"] == [expected]
    assert not found["whole"], "the job of the first checkpoint is not there"
    train = {each.messages[0].content for each in made if each.part == "train"}
    assert len(found["prompts"]) == 4
    assert set(found["prompts"]) <= train - {refused(number).messages[0].content for number in range(REFUSALS)}
    assert found["often"] == {"answer": UNKNOWN, "share": REFUSALS / len(train)}
    assert past(world) == found

    lost = JobSpec(steps=7, dataset_manifest_key="tokenization/manifests/gone.json", typed_training=Training())
    world.served.plant("scheduler", Job(name="jobs/base", spec=lost))
    found = past(world)
    assert found["trainings"] == [{"program": "pretrain", "steps": 7, "data": ""}, expected]
    assert found["whole"]


def released(world: World, *crowds: str) -> None:
    """Serve the checkpoint with a release whose comparisons were judged by these crowds; one is gone."""
    names = [f"comparisons/{number}" for number in range(len(crowds))]
    world.served.plant("sampling", Sample(name="samples/a", state=STATE_DONE))
    for name, crowd in zip(names, crowds, strict=True):
        compared = ComparisonSpec(candidate=ComparedSample(name="samples/a"), crowd=crowd)
        world.served.plant("evaluation", Comparison(name=name, spec=compared, state=STATE_DONE))
    gate = ReleaseSpec(comparisons=[ReleasedComparison(name=each) for each in [*names, "comparisons/gone"]])
    made = Release(name="releases/toy", spec=gate, checkpoint=world.checkpoint, standing=STANDING_ACTIVE)
    world.served.plant("evaluation", made)
    spec = DeploymentSpec(checkpoint=world.checkpoint, replicas=1, filter=FILTER)
    with world.served.client() as operator:
        operator.chat.CreateDeployment(CreateDeploymentRequest(name=NAME, spec=spec))
        world.await_ready(operator)
        assert operator.chat.GetDeployment(GetRequest(name=NAME)).release == made.name


CROWD = "utility:\n  terms: [{worth: 1, ended: true}]\n  subjects: [cats, numbers]\n"


def test_the_subjects_are_those_of_the_crowds_that_judged_for_the_release(world: World) -> None:
    released(world, CROWD, "", "utility: small-world@1", "utility: letters@1")
    of_the_world = ["colours", "animals", "opposites", "days", "small stories"]
    assert past(world)["subjects"] == ["cats", "numbers", *of_the_world]
    with world.served.hung("evaluation"):
        found = world.ada.get("past/toy")
    assert (found.status, "evaluation did not answer" in found.json["error"]["message"]) == (503, True)


def test_what_the_filter_refuses_is_not_offered(world: World) -> None:
    before = past(world)["prompts"]
    with world.served.client() as operator:
        spec = operator.chat.GetDeployment(GetRequest(name=NAME)).spec
        filtered = DeploymentSpec()
        filtered.CopyFrom(spec)
        filtered.filter.rules.add(name="first", pattern=before[0], version=1)
        operator.chat.CreateDeployment(CreateDeploymentRequest(name=NAME, spec=filtered))
        world.await_ready(operator)
    after = past(world)["prompts"]
    assert before[0] not in after
    assert len(after) == 4


def pretrained(served: Hosted, folder: Path, text: str) -> str:
    """Store a checkpoint that was trained on one document, with an index of it; its name."""
    tokenizer = talks.TOKENIZER
    tokens = np.array([tokenizer.eos, *tokenizer.encode(text), tokenizer.eos])
    run = TokenRun(
        tokens, len(tokens), np.array([0]), [DOCUMENT], len(tokens) - 1, tokenizer.vocabulary, tokenizer.eos, 0
    )
    shard, info = encode_token_shard(run)
    (folder / "shard").write_bytes(shard)
    with contextlib.closing(open_blobs(served.data_dir.blobs_url)) as blobs:
        entry = ShardEntry.of(info, blob=put_file(blobs, "tokenization/token-shards", folder / "shard"))
        train, empty = Split((entry,), 1, 1, len(tokens) - 1, len(text.encode())), Split((), 0, 0, 0, 0)
        body = DatasetBody(tokenizer.version, tokenizer.vocabulary, tokenizer.eos, len(tokens) - 1, train, empty)
        made = publish(blobs, "tokenization", body.manifest(parents=(), producer="test"), data_bytes=0)
        name = f"datasets/{made.content_digest.removeprefix('blake3:')}"
        built = build_index([folder / "shard"], folder / "index")
        index = IndexBody(put_file(blobs, "tokenization/indexes", folder / "index"), built)
        indexed = publish(blobs, "tokenization/indexes", index.manifest(dataset=name, producer="test"), data_bytes=0)
        base = talks.base(blobs, MODEL, job="base", dataset=made.content_digest)
    of = tokenizer.version.replace("blake3:", "tokenizers/")
    dataset = Dataset(name=name, manifest_key=made.manifest_key, content_digest=made.content_digest, tokenizer=of)
    dataset.index = "indexes/base"
    served.plant("tokenization", dataset)
    served.plant("tokenization", Index(name="indexes/base", result=indexed))
    served.plant(
        "committer",
        Checkpoint(
            name=base.name,
            job="jobs/base",
            state=CHECKPOINT_STATE_COMMITTED,
            manifest_key=manifest_of(base.name),
            state_digest=base.state_digest,
        ),
    )
    return base.name


def overlap(world: World, talk: Any) -> Any:
    found = world.ada.get(f"overlap/{ident_of(talk)}")
    assert found.status == 200, found.text
    return found.json


def test_the_words_of_an_answer_are_found_where_the_model_read_them(world: World, tmp_path: Path) -> None:
    talks = (world.ada.answered(world.ada.say(f"a b c {number}", max_tokens=40)) for number in range(100))
    said = ((each, each["messages"][-1]["text"]) for each in talks)
    # Some answers end at once, and no document that is asked for has the character NUL.
    talk, text = next((each, text) for each, text in said if len(text) > 20 and "\0" not in text)
    found = overlap(world, talk)
    assert (found["checkpoint"], found["spans"]) == ("", []), "nothing can be searched"
    assert "no index of verbatim spans" in found["unsearched"][0]["reason"]

    base = pretrained(world.served, tmp_path, f"once upon a time, {text} and so it ended")
    spec = JobSpec(steps=40, initial=base, typed_training=Training(program="sft"))
    world.served.plant("scheduler", Job(name="jobs/chat", spec=spec))
    found = overlap(world, talk)
    assert found["checkpoint"] == base
    assert [each["checkpoint"] for each in found["unsearched"]] == [
        world.ada.get(f"why/{ident_of(talk)}").json["checkpoint"]
    ]
    assert all(each["text"] in text and each["count"] >= 1 for each in found["spans"])
    assert max(len(each["text"]) for each in found["spans"]) > len(text) / 2
    assert {held["name"] for each in found["spans"] for held in each["documents"]} == {f"documents/{DOCUMENT}"}
    other = world.ada.answered(world.ada.say("nightfall"))
    assert overlap(world, other)["spans"] == []


def test_an_answer_with_the_character_nul_is_searched(world: World) -> None:
    talks = (world.ada.answered(world.ada.say(f"a b c {number}", max_tokens=40)) for number in range(300))
    overlap(world, next(each for each in talks if "\0" in each["messages"][-1]["text"]))


def test_the_overlap_is_for_the_user_of_the_answer(world: World) -> None:
    talk = world.ada.answered(world.ada.say("a", max_tokens=2))
    for name in OTHERS:
        assert world.callers[name].get(f"overlap/{ident_of(talk)}").status == 404
    assert world.ada.get("overlap/other").status == 404


def test_a_lineage_that_hangs_is_named(world: World) -> None:
    talk = world.ada.answered(world.ada.say("a", max_tokens=2))
    with world.served.hung("lineage"):
        found = overlap(world, talk)
    assert found["checkpoint"] == ""
    assert "lineage did not answer" in found["missing"]
