"""Two rounds of judgements: what a retraction in the first makes again, and what it keeps."""

from dataclasses import replace

import pytest

from tutti.contracts.annotation.v1 import CAMPAIGN_STATE_PUBLISHED
from tutti.contracts.common.v1 import STATE_DONE, STATE_RUNNING
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, Run, Stage
from tutti.contracts.scheduler.v1 import Job
from tutti.model.training import Training
from tutti.pipeline.definitions.finetuning_test import BASE, create, world
from tutti.pipeline.runs.driver import KEPT
from tutti.pipeline.stages.campaigns_test import lines
from tutti.pipeline.world_test import CALL, World
from tutti.records.manifest import Kind

__all__ = ["world"]

TEXT = f"""{BASE}stages:
  answers: {{kind: sample, from: train, prompts: [one]}}
  judged: {{kind: campaign, from: answers, guideline: g, axes: [helpful], judgements: 9}}
  preferences: {{kind: preferences, from: judged}}
  policy: {{kind: dpo, from: {{initial: train, preferences: preferences}}, epochs: 2}}
  policy-final: {{kind: sample, from: policy, prompts: [final]}}
  answers-2: {{kind: sample, from: policy, prompts: [one]}}
  judged-2: {{like: judged, from: answers-2}}
  preferences-2: {{kind: preferences, from: {{judged: [judged, judged-2]}}}}
  policy-2: {{kind: dpo, from: {{initial: train, preferences: preferences-2}}, epochs: 2}}
"""
BEFORE = {"ingest", "filter", "dedup", "tokenization", "train"}
FIRST = {"answers", "judged", "preferences", "policy", "policy-final"}
SECOND = {"answers-2", "judged-2", "preferences-2", "policy-2"}


@pytest.fixture
def rounds(world: World) -> World:
    world.works["preferences"] = world.preferences
    world.training = trained
    return world


def trained(job: Job) -> Training:
    """With a seed that follows from all of it: so other preferences give another state."""
    training = Training.from_json(job.spec.training)
    return replace(training, step=replace(training.step, seed=int(training.digest()[-8:], 16)))


def finished(world: World, text: str = TEXT, *, count: int = 40) -> tuple[Run, set[str]]:
    """The run when it has ended, and the stages that were done for it; preferences have `count` lines."""
    name, done = create(world, text).name, set[str]()
    while (run := world.run(name)).state == STATE_RUNNING:
        stage = next(stage for stage in run.stages if stage.state == STATE_RUNNING)
        done.add(stage.name)
        if stage.kind == "campaign":
            publish(world, stage.resource, f"{world.campaigns.made[stage.resource].spec.judgements} judgements")
        elif stage.kind == "preferences":
            spec = world.preferences.made[stage.resource].spec
            said = [spec.content_digest, *(each.content_digest for each in spec.others)]
            world.preferences.end(STATE_DONE, "", lines(world, Kind.PREFERENCES, f"of {said}", count))
        else:
            world.finish("train" if stage.resource.startswith("jobs/") else stage.kind)
    assert run.state == STATE_DONE, run.reason
    return run, done


def publish(world: World, campaign: str, words: str) -> None:
    """A campaign publishes its judgements, or publishes them anew."""
    work = world.campaigns.made[campaign]
    work.state = CAMPAIGN_STATE_PUBLISHED
    work.result.CopyFrom(lines(world, Kind.JUDGEMENTS, words, 1))
    world.hear(work)


def stages(run: Run) -> dict[str, Stage]:
    return {stage.name: stage for stage in run.stages}


def test_a_second_round_judges_the_policy_of_the_first_and_fits_both(rounds: World) -> None:
    run, done = finished(rounds)
    assert done == BEFORE | FIRST | SECOND
    at = stages(run)
    spec = rounds.preferences.made[at["preferences-2"].resource].spec
    assert (spec.campaign, [each.campaign for each in spec.others]) == (
        at["judged"].resource,
        [at["judged-2"].resource],
    )
    assert rounds.sampling.made[at["answers-2"].resource].spec.checkpoint.startswith("checkpoints/")
    assert finished(rounds)[1] == set()


@pytest.mark.parametrize("count", [40, 7])
def test_a_retraction_in_the_first_round_keeps_the_judged_answers_of_its_policy(rounds: World, count: int) -> None:
    """Fewer lines of preferences may be left, and so fewer steps of the policy."""
    before = stages(finished(rounds)[0])
    publish(rounds, before["judged"].resource, "all but those of one annotator")
    run, done = finished(rounds, count=count)
    assert done == {"preferences", "policy", "policy-final", "preferences-2", "policy-2"}
    after = stages(run)
    for name in ("answers-2", "judged-2"):
        assert after[name].reused
        assert after[name].content_digest == before[name].content_digest
    assert after["answers-2"].summary.endswith(KEPT)
    assert after["policy"].content_digest != before["policy"].content_digest
    assert finished(rounds, count=count)[1] == set()


def test_a_plan_says_so_before_it_runs(rounds: World) -> None:
    before = stages(finished(rounds)[0])
    publish(rounds, before["judged"].resource, "all but those of one annotator")
    request = CheckRecipeRequest(recipe=TEXT, directory=str(rounds.folder))
    found = {each.name: each.reused for each in rounds.api.CheckRecipe(request, CALL).stages}
    assert (found["answers"], found["judged"], found["preferences"]) == (True, True, False)


def test_a_retraction_in_the_second_round_makes_nothing_of_the_first_again(rounds: World) -> None:
    before = stages(finished(rounds)[0])
    publish(rounds, before["judged-2"].resource, "all but those of one annotator")
    assert finished(rounds)[1] == {"preferences-2", "policy-2"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epochs: 2", "epochs: 3"),
        ("judgements: 9", "judgements: 8"),
        ("policy, prompts: [one]", "policy, prompts: [two]"),
    ],
)
def test_another_recipe_makes_answers_to_be_judged_anew(rounds: World, old: str, new: str) -> None:
    before = stages(finished(rounds)[0])
    publish(rounds, before["judged"].resource, "all but those of one annotator")
    assert {"answers-2", "judged-2"} <= finished(rounds, TEXT.replace(old, new, 1))[1]


def test_answers_that_others_read_too_are_those_of_todays_policy(rounds: World) -> None:
    read = TEXT + "  compared: {kind: comparison, from: {baseline: answers, candidate: answers-2, judged: judged-2}}\n"

    def compared(world: World) -> None:
        world.comparisons.end(STATE_DONE, "", lines(world, Kind.COMPARISON, "compared", 1))

    rounds.finish_comparison = compared.__get__(rounds)  # type: ignore[attr-defined]
    before = stages(finished(rounds, read)[0])
    publish(rounds, before["judged"].resource, "all but those of one annotator")
    assert {"answers-2", "judged-2"} <= finished(rounds, read)[1]
