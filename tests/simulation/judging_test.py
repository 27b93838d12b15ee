"""From answers to preferences by a recipe: the real services, in worlds that crash, repeat and reorder by seed."""

import json
from collections.abc import Mapping

import numpy as np

from tutti.annotation.service import build as build_annotation
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.work import publish
from tutti.contracts.annotation.v1.stubs import AnnotationServiceStub
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, GetRequest
from tutti.contracts.pipeline.v1 import CreateRunRequest
from tutti.contracts.pipeline.v1.stubs import PipelineServiceStub
from tutti.contracts.sampling.v1 import Sample, SampleSpec
from tutti.corpus.conversations.conversations import Answer, Message, Role
from tutti.ingest.service import build as build_ingest
from tutti.judgements import letters
from tutti.pipeline.service import build as build_pipeline
from tutti.records.manifest import Kind, Manifest
from tutti.sampling.service import build as build_sampling
from tutti.simulation import Simulation
from tutti.staging import linefiles

BUILDS = {
    "annotation": build_annotation,
    "ingest": build_ingest,
    "pipeline": build_pipeline,
    "sampling": build_sampling,
}
SAMPLE, CHECKPOINT = "samples/letters", "checkpoints/letters/0/1"
CROWD = "utility: letters@1\nkinds: [{name: fair, share: 1.0, sharpness: [2.0, 3.0]}]\n"
RECIPE = {
    "name": "judging",
    "stages": {
        "judged": {
            "kind": "campaign",
            "from": SAMPLE,
            "guideline": "Prefer the better copy.\n",
            "axes": ["helpful"],
            "crowd": {"simulated": CROWD, "annotators": 3},
            "overlap": {"least": 1, "most": 2},
            "judgements": 12,
            "controls": 0.25,
            "filler": f" {letters.NEUTRAL}",
        },
        "preferences": {"kind": "preferences", "from": "judged"},
    },
}


def answers(prompts: int) -> list[Answer]:
    """Two answers to each prompt, in the order of prompts."""
    rng, found = np.random.default_rng(0), list[Answer]()
    for _ in range(prompts):
        asked = letters.prompt(rng)
        for _ in range(2):
            text = f"{letters.demonstration(asked, rng)} {'thanks ' * (len(found) % 2)}".strip()
            found.append(Answer((Message(Role.USER, asked),), len(found), text, (), "end"))
    return found


def plant(world: Simulation) -> None:
    """A sample of a checkpoint, with the answers in its manifest."""
    host = world.lives["sampling"][0].parts.host
    lines = linefiles.write(world.world.blobs, "sampling/answers", answers(8)).to_json()
    manifest = Manifest(Kind.SAMPLE, {"lines": lines}, (CHECKPOINT,), "test")
    result = publish(world.world.blobs, "sampling", manifest, data_bytes=0)
    sample = Sample(name=SAMPLE, spec=SampleSpec(checkpoint=CHECKPOINT), state=STATE_DONE, result=result)
    resource = next(each for each in world.lives["sampling"][0].parts.service.resources if each.kind == "samples")

    def create(unit: Unit) -> None:
        resource.create(unit, sample)

    host.units.run(create)


def judged(seed: int, **options: object) -> Mapping[str, str]:
    """The digests that a run gives, by stage."""
    with Simulation(seed, builds=BUILDS, **options) as world:  # type: ignore[arg-type]
        calm, world.fate.calm = world.fate.calm, True
        plant(world)
        world.fate.calm = calm
        pipeline = PipelineServiceStub(world.channel("pipeline"))
        request = CreateRunRequest(request_id="r", name="runs/judging", recipe=json.dumps(RECIPE))
        world.insist(lambda: pipeline.CreateRun(request))

        def ended() -> bool:
            run = world.insist(lambda: pipeline.GetRun(GetRequest(name="runs/judging")))
            assert run.state != STATE_FAILED, run.reason
            return bool(run.state == STATE_DONE)

        world.run(until=ended, max_turns=60_000)
        world.settle()
        world.examine()
        run = world.insist(lambda: pipeline.GetRun(GetRequest(name="runs/judging")))
        annotation = AnnotationServiceStub(world.channel("annotation"))
        (_, stage) = run.stages
        found = world.insist(lambda: annotation.GetPreferences(GetRequest(name=stage.resource)))
        assert (found.judgements >= 12, found.simulated, stage.content_digest) == (
            True,
            True,
            found.result.content_digest,
        )
        assert run.stages[0].summary.startswith("12 judgements of ")
        return {each.name: each.content_digest for each in run.stages}


def test_a_run_judges_answers_and_fits_preferences_whatever_happens() -> None:
    calm = judged(0, rates={})
    assert [judged(seed) for seed in (1, 2)] == [calm, calm]
