"""The past of a model on the empty chat page: its trainings and prompts of them, from the record of a platform."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests import talks
from tests.chat.platforms import CHAT_BUILDS
from tests.chat.talks_test import NAME, World
from tests.web.hosted import Hosted, hosted
from tutti.backbone.connect import open_blobs
from tutti.chassis.identity.principal import DEFAULT_TENANT
from tutti.contracts.chat.v1 import DEPLOYMENT_STATE_STOPPED, CreateDeploymentRequest, Deployment, DeploymentSpec
from tutti.contracts.chat.v1 import Answer as RecordedAnswer
from tutti.contracts.common.v1 import GetRequest, Training
from tutti.contracts.scheduler.v1 import Job, JobSpec
from tutti.corpus.conversations.conversations import Conversation, to_lines
from tutti.records.canonical import bytes_digest
from tutti.records.manifest import Kind, Manifest

COUNT = 60


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hosted(tmp_path_factory.mktemp("platform"), builds=CHAT_BUILDS) as served:
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


def past(world: World) -> Any:
    found = world.ada.get("past/toy")
    assert found.status == 200, found.text
    return found.json


def test_a_model_whose_training_is_not_recorded_has_no_past(world: World) -> None:
    assert past(world) == {"trainings": [], "whole": False, "prompts": []}


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
    made = talks.demonstrations(COUNT)
    tuned = JobSpec(
        steps=40,
        dataset_manifest_key=published(world.served, made),
        typed_training=Training(program="sft", part="train"),
        initial="checkpoints/base/0/7",
    )
    world.served.plant("scheduler", Job(name="jobs/chat", spec=tuned))
    expected = {"program": "sft", "steps": 40, "data": f"{COUNT} conversations"}
    found = past(world)
    assert found["trainings"] == [expected]
    assert not found["whole"], "the job of the first checkpoint is not there"
    train = {each.messages[0].content for each in made if each.part == "train"}
    assert len(found["prompts"]) == 4
    assert set(found["prompts"]) <= train
    assert past(world) == found

    lost = JobSpec(steps=7, dataset_manifest_key="tokenization/manifests/gone.json", typed_training=Training())
    world.served.plant("scheduler", Job(name="jobs/base", spec=lost))
    found = past(world)
    assert found["trainings"] == [{"program": "pretrain", "steps": 7, "data": ""}, expected]
    assert found["whole"]


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
