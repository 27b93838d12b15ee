"""The stage `grpo`: what its job is asked for, what decides it, what is refused."""

import pytest

from tutti.chassis.errors import InvalidField
from tutti.contracts.common.v1 import STATE_DONE
from tutti.contracts.scheduler.v1 import RANK_ROLE_ACTOR, RANK_ROLE_ROLLOUT
from tutti.corpus.conversations.template import CHAT_1
from tutti.model.programs.grpo import GrpoParameters, RewardFunction
from tutti.model.training import Training
from tutti.pipeline.definitions.finetuning_test import BASE, finished, jobs, world
from tutti.pipeline.plans import graph
from tutti.pipeline.plans.reading import read
from tutti.pipeline.world_test import World

__all__ = ["world"]

TEXT = f"""{BASE}stages:
  prompts: {{kind: conversations, path: asked, split: {{train: 0.5, final: 0.5}}}}
  judge: {{kind: reward, from: {{initial: train, preferences: preferences/p}}, batch: 8, microbatches: 2}}
  grpo:
    from: {{initial: train, prompts: prompts.train, reward: judge}}
    steps: 6
    prompts_per_step: 1
    group: 16
    minibatches: 2
    epochs: 3
    checkpoint_every: 2
    kl: 0.05
    rewards: [{{name: length, argument: "8", weight: 0.5}}]
"""


def test_its_job_reads_prompts_a_reference_and_a_reward_model(world: World) -> None:
    run, done = finished(world, TEXT)
    assert run.state == STATE_DONE
    assert done[-1] == "grpo"
    results = {each.name: each for each in run.stages}
    job = jobs(world, run)["grpo"]
    training = Training.from_json(job.spec.training)
    assert (training.program, training.part, training.template) == ("grpo", "train", CHAT_1.digest)
    assert (training.steps, training.checkpoint_every, training.step.rows) == (36, 12, 1)
    assert training.program_parameters == GrpoParameters(
        prompts=1,
        group=16,
        tokens=64,
        minibatches=2,
        epochs=3,
        kl=0.05,
        functions=(RewardFunction("length", "8", 0.5),),
        least_spread=0.02,
    )
    assert [(each.role, each.state_digest) for each in training.models] == [
        ("reference", results["train"].content_digest),
        ("reward", results["judge"].content_digest),
    ]
    assert [each.role for each in job.spec.models] == ["reference", "reward"]
    assert job.spec.source == results["prompts"].resource
    assert finished(world, TEXT)[1] == []
    assert finished(world, TEXT, "stages.grpo.kl=0.1")[1] == ["grpo"]
    assert finished(world, TEXT, "stages.grpo.ranks=2")[1] == []  # changes no bit of the result


def test_an_entropy_bonus_is_recorded_only_where_one_is_asked_for() -> None:
    assert "entropy" not in read(TEXT).canonical()
    assert '"entropy":0.01' in read(TEXT, ["stages.grpo.entropy=0.01"]).canonical()
    with pytest.raises(InvalidField, match="entropy"):
        read(TEXT, ["stages.grpo.entropy=-1"])


JUDGED = TEXT.replace(
    '    rewards: [{name: length, argument: "8", weight: 0.5}]\n',
    "    crowd: {simulated: crowd.yaml}\n    stop_gap: 0.2\n",
)


def test_a_crowd_of_a_file_judges_its_answers(world: World) -> None:
    (world.folder / "crowd.yaml").write_text("utility: letters@1\n")
    run, _ = finished(world, JUDGED)
    found = Training.from_json(jobs(world, run)["grpo"].spec.training).program_parameters
    assert isinstance(found, GrpoParameters)
    assert (found.crowd, found.annotators, found.gap_every, found.stop_gap) == ("utility: letters@1\n", 20, 10, 0.2)


def test_a_crowd_that_cannot_be_simulated_is_refused_by_its_key(world: World) -> None:
    (world.folder / "crowd.yaml").write_text("utility: beauty\n")
    with pytest.raises(InvalidField, match=r"crowd\.simulated.*utility 'beauty'"):
        finished(world, JUDGED)


def test_its_rows_hold_a_multiple_of_sixteen_tokens(world: World) -> None:
    run, _ = finished(world, TEXT, "stages.grpo.length=20")
    assert Training.from_json(jobs(world, run)["grpo"].spec.training).step.length == 32


def test_split_rollouts_have_workers_of_their_own_and_change_no_result(world: World) -> None:
    split = TEXT.replace("    kl: 0.05\n", "    kl: 0.05\n    rollout: {placement: split, workers: 2}\n")
    run, _ = finished(world, split)
    groups = [(each.role, each.program, each.ranks) for each in jobs(world, run)["grpo"].spec.groups]
    assert groups == [(RANK_ROLE_ACTOR, "grpo", 0), (RANK_ROLE_ROLLOUT, "grpo", 2)]
    assert finished(world, TEXT)[1] == []  # changes no bit of the result


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("stages.grpo.group=3", "a multiple of 16 answers"),
        ("stages.grpo.rows=4", "1, or nothing: the answers decide it"),
        ("stages.grpo.lag=2", "less than checkpoint_every"),
        ("stages.grpo.group=1", "group"),
        ("stages.grpo.clip=1", "clip"),
        ("stages.grpo.ranks=9", "at most"),
        ("stages.grpo.rollout.workers=2", "1, the ranks that train, or nothing; or `placement: split`"),
        ("stages.grpo.rollout.placement=apart", "placement"),
        ("stages.grpo.stop_gap=0.2", "a crowd that judges"),
        ("stages.grpo.crowd.simulated=utility: letters@1", "a reward model alone"),
    ],
)
def test_keys_that_do_not_fit_are_refused_before_anything_starts(change: str, words: str) -> None:
    with pytest.raises(InvalidField, match=words):
        read(TEXT, [change])


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        ("{name: kind}", "no reward is named 'kind'"),
        ('{name: regex, argument: "("}', "is no regular expression"),
        ("{name: length, argument: many}", "expected a number of tokens"),
        ("{argument: a}", "name"),
    ],
)
def test_a_reward_function_that_cannot_work_is_refused(reward: str, words: str) -> None:
    with pytest.raises(InvalidField, match=words):
        read(TEXT.replace('{name: length, argument: "8", weight: 0.5}', reward))


def test_something_has_to_give_rewards() -> None:
    with pytest.raises(InvalidField, match=r"grpo\.rewards.*functions, or a reward model"):
        read(TEXT.replace(", reward: judge", "").replace('rewards: [{name: length, argument: "8", weight: 0.5}]', ""))


def test_more_prompts_than_there_are_and_a_model_without_a_head_are_refused(world: World) -> None:
    more = TEXT.replace("prompts_per_step: 1\n", "prompts_per_step: 1000\n")
    assert "at most" in finished(world, more)[0].reason
    headless = TEXT.replace("reward: judge", "reward: train")
    assert "without a scalar head" in finished(world, headless)[0].reason


def test_what_it_does_is_known_from_the_recipe() -> None:
    every = {node.name: node for node in graph.nodes(read(TEXT))}
    grpo = every["grpo"]
    assert grpo.stage.amount(grpo.view, 0) == 6 * 16 * 64
    assert grpo.stage.unforeseeable(grpo.view) == ""
