"""The stage `grpo`: a checkpoint learns from rewards of its own answers."""

from collections.abc import Callable, Collection, Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from tutti.chassis.config.recipetext import Part, Real
from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host
from tutti.checkpoints.keys import checkpoint_of
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.ingest.v1 import Conversations
from tutti.contracts.scheduler.v1 import RANK_ROLE_ACTOR, RANK_ROLE_ROLLOUT, JobSpec
from tutti.corpus.conversations.rewards import FUNCTIONS, InvalidReward, reward_of
from tutti.model.programs import records
from tutti.model.programs.grpo import GrpoParameters, RewardFunction
from tutti.model.spec import ModelSpec, row_length
from tutti.model.training import RoleModel
from tutti.pipeline.definitions.checkpoints import begun_of
from tutti.pipeline.definitions.definition import Role, StageContext
from tutti.pipeline.definitions.finetuning import LATER, FinetuningStage, JobSection, Rhythm, role_model
from tutti.pipeline.recipes.crowdpart import CrowdPart, check_crowd
from tutti.pipeline.recipes.declared import declares, values
from tutti.pipeline.recipes.imports import INITIAL
from tutti.pipeline.recipes.instance import Keys
from tutti.pipeline.recipes.keytypes import Positive
from tutti.pipeline.recipes.values import Inputs
from tutti.pipeline.recipes.view import View
from tutti.records.manifest import Kind

REFERENCE, REWARD = "reference", "reward"


class RewardPart(Part):
    name: str = Field(description=f"of the function: {', '.join(sorted(FUNCTIONS))}")
    argument: str = Field(default="", max_length=4096, description="a regular expression, or a number of tokens")
    weight: Real = Field(default=1.0, description="weight of this reward in the sum")


class RolloutPart(Part):
    placement: Literal["colocated", "split"] = Field(
        default="colocated",
        description="where answers are generated: on the ranks that train, or split: on ranks of their own",
    )
    workers: Positive | None = Field(
        default=None, le=64, description="number of rollout workers; split: default 1; colocated: the ranks"
    )


@declares(GrpoParameters, learning_rate=1e-3, least_spread=0.02)
class GrpoSection(JobSection):
    later = frozenset({"entropy", "crowd", "gap_every", "stop_gap", *LATER})

    steps: Positive = Field(
        default=60, description="number of iterations: each generates rollouts and updates the policy"
    )
    crowd: CrowdPart | None = Field(
        default=None,
        description="simulated annotators whose judgements are compared with the reward model; default: nobody",
    )
    gap_every: Positive = Field(default=10, description="iterations between two comparisons with `crowd`")
    rewards: list[RewardPart] = Field(
        default_factory=list, max_length=16, description="verifiable rewards, each with `name`, `argument`, `weight`"
    )
    length: Positive | None = Field(
        default=None,
        description="tokens of a prompt and its answer, rounded up to a multiple of 16; default: the model's context",
    )
    rollout: RolloutPart | None = Field(
        default=None, description="placement of rollouts; does not affect the result; default: colocated"
    )


class GrpoStage(FinetuningStage):
    name = "grpo"
    section = GrpoSection
    version = "policies-4"
    roles: ClassVar[tuple[Role, ...]] = (
        Role(INITIAL, Checkpoint),
        Role("prompts", Conversations),
        Role(REWARD, Checkpoint, required=False),
        Role(REFERENCE, Checkpoint, required=False),
    )
    data, reads = "prompts", Kind.CONVERSATIONS

    def filled(self, section: GrpoSection, keys: Keys) -> GrpoSection:
        """With rows: the answers of an iteration are the rows of its minibatches."""
        answers, leaves = section.prompts_per_step * section.group, section.minibatches * section.microbatches
        if answers % leaves:
            raise keys.refused(
                "prompts_per_step",
                seen=f"{section.prompts_per_step} prompts x {section.group} answers",
                expected=f"a multiple of {leaves} answers: minibatches ({section.minibatches}) x microbatches "
                f"({section.microbatches}); change one of them",
            )
        rows = answers // leaves
        for key, seen, expected in (
            ("rows", section.rows, rows),
            ("batch", section.batch, rows * section.microbatches),
        ):
            if seen not in (None, expected):
                raise keys.refused(key, seen=seen, expected=f"{expected}, or nothing: the answers decide it")
        return section.model_copy(update={"rows": rows, "batch": None})

    def embedded(self, section: GrpoSection, keys: Keys, text_of: Callable[[str, str], str]) -> GrpoSection:
        if section.crowd is None:
            return section
        key = keys.of("crowd.simulated")
        text = text_of(key, section.crowd.simulated)
        check_crowd(key, text)
        return section.model_copy(update={"crowd": section.crowd.model_copy(update={"simulated": text})})

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        section = _section(view)
        yield from self.job_problems(view, section)
        if section.lag and section.lag >= _every(section):
            expected = f"less than checkpoint_every ({_every(section)}): no policy is older than the last checkpoint"
            yield view.refused("lag", seen=section.lag, expected=expected)
        if REWARD not in filled and not section.rewards:
            expected = "functions, or a reward model as `from: {reward: …}`"
            yield view.refused("rewards", seen="nothing", expected=expected)
        if section.crowd is None and section.stop_gap:
            expected = "a crowd that judges, as `crowd: {simulated: FILE}`"
            yield view.refused("crowd", seen="nothing", expected=expected)
        if section.crowd is not None and (REWARD not in filled or section.rewards or section.reward_weight <= 0):
            seen = "other rewards" if section.rewards else "no reward model with a weight above 0"
            expected = "a reward model alone, whose promises the crowd is compared with"
            yield view.refused("crowd", seen=seen, expected=expected)
        if section.crowd is not None and section.group < 2:
            yield view.refused("group", seen=section.group, expected="2 or more: the crowd judges pairs")
        for each in section.rewards:
            try:
                reward_of(each.name, each.argument)
            except InvalidReward as error:
                yield view.refused("rewards", seen=each.name, expected=f"a reward function: {error}")

        rollout = section.rollout or RolloutPart()
        if rollout.placement == "colocated" and rollout.workers not in (None, section.ranks):
            expected = f"{section.ranks}, the ranks that train, or nothing; or `placement: split`"
            yield view.refused("rollout.workers", seen=rollout.workers, expected=expected)

    def request(self, asked: StageContext) -> JobSpec:
        spec, workers = super().request(asked), _workers(_section(asked.view))
        if workers:
            spec.groups.add(role=RANK_ROLE_ACTOR, program=self.name)
            spec.groups.add(role=RANK_ROLE_ROLLOUT, program=self.name, ranks=workers)
        return spec

    def slots(self, view: View) -> int:
        return super().slots(view) + _workers(_section(view))

    def program_parameters(self, view: View) -> GrpoParameters:
        section = _section(view)
        record = records()[self.name]
        assert record is not None
        assert issubclass(record, GrpoParameters)
        functions = tuple(RewardFunction(each.name, each.argument, each.weight) for each in section.rewards)
        return record(**{**values(record, section), **_judged(section)}, functions=functions)

    def length(self, section: GrpoSection, model: ModelSpec) -> int:
        return row_length(section.length or 0, model.context)

    def rhythm(self, asked: StageContext) -> Rhythm:
        """Whole iterations: inside of one, a state does not say what was rolled out."""
        section = _section(asked.view)
        updates = section.epochs * section.minibatches
        return Rhythm(section.steps * updates, _every(section) * updates)

    def models(self, asked: StageContext) -> tuple[RoleModel, ...]:
        """The reference is the initial checkpoint unless it is given."""
        reference, reward = asked.get(REFERENCE) or asked.one(INITIAL), asked.get(REWARD)
        found = [role_model(REFERENCE, reference)]
        return (*found, role_model(REWARD, reward)) if reward is not None else tuple(found)

    def today(self, asked: StageContext, host: Host) -> Inputs:
        inputs = super().today(asked, host)
        begun = inputs[INITIAL][0].begun
        assert begun is not None
        if (reference := asked.get(REFERENCE)) is not None:
            model = begun_of(asked.view, REFERENCE, reference, host).model
            if model != begun.model:
                seen = f"{checkpoint_of(reference.manifest_key)}, a model with a vocabulary of {model.vocabulary}"
                expected = f"the model of the initial checkpoint, with a vocabulary of {begun.model.vocabulary}"
                raise asked.view.refused(f"from.{REFERENCE}", seen=seen, expected=expected)
        if (reward := asked.get(REWARD)) is not None:
            made = begun_of(asked.view, REWARD, reward, host)
            if not made.model.scalar_head or made.tokenizer != begun.tokenizer:
                what = f"over {made.tokenizer or 'other tokens'}" if made.model.scalar_head else "without a scalar head"
                raise asked.view.refused(
                    f"from.{REWARD}",
                    seen=f"{checkpoint_of(reward.manifest_key)}, {what}",
                    expected=f"a checkpoint of a stage `reward` over {begun.tokenizer}",
                )
        count, needed = inputs["prompts"][0].count, _section(asked.view).prompts_per_step
        if count < needed:
            expected = f"at most {count}, as many prompts as there are"
            raise asked.view.refused("prompts_per_step", seen=needed, expected=expected)
        return inputs

    def amount(self, view: View, pages: int) -> float:
        """Tokens of answers, at most."""
        section = _section(view)
        return float(section.steps * section.prompts_per_step * section.group * section.tokens)

    def unforeseeable(self, view: View) -> str:
        return ""


def _judged(section: GrpoSection) -> dict[str, Any]:
    """The parameters of fresh judgements; none without a crowd."""
    crowd = section.crowd
    if crowd is None:
        return {}
    return {"crowd": crowd.simulated, "annotators": crowd.annotators, "gap_every": section.gap_every}


def _workers(section: GrpoSection) -> int:
    """Ranks that only generate answers."""
    rollout = section.rollout
    return rollout.workers or 1 if rollout is not None and rollout.placement == "split" else 0


def _every(section: GrpoSection) -> int:
    """Iterations between two checkpoints."""
    return section.checkpoint_every or max(1, section.steps // 10)


def _section(view: View) -> GrpoSection:
    return view.section(GrpoSection)


STAGE = GrpoStage()
