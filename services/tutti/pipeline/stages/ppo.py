"""The stage `ppo`: as `grpo`, with a value model that learns beside the policy."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host
from tutti.checkpoints.keys import checkpoint_of
from tutti.contracts.committer.v1 import Checkpoint
from tutti.model.programs.ppo import PpoParameters
from tutti.model.spec import ModelSpec
from tutti.model.training import RoleModel
from tutti.pipeline.definitions.checkpoints import begun_of
from tutti.pipeline.definitions.definition import Role, StageContext
from tutti.pipeline.definitions.finetuning import role_model
from tutti.pipeline.recipes.declared import declares
from tutti.pipeline.recipes.imports import INITIAL
from tutti.pipeline.recipes.values import Inputs, Result
from tutti.pipeline.recipes.view import View
from tutti.pipeline.stages.grpo import REWARD, GrpoSection, GrpoStage

CRITIC = "critic"


@declares(PpoParameters)
class PpoSection(GrpoSection):
    pass


class PpoStage(GrpoStage):
    name = "ppo"
    section = PpoSection
    roles = (*GrpoStage.roles, Role(CRITIC, Checkpoint, required=False))

    def model(self, begun: ModelSpec) -> ModelSpec:
        return replace(begun, value_model=True)

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        yield from super().problems(view, filled)
        if not {CRITIC, REWARD} & set(filled):
            expected = "a reward model that the value model begins with, as `from: {critic: …}`"
            yield view.refused(f"from.{CRITIC}", seen="nothing", expected=expected)

    def models(self, asked: StageContext) -> tuple[RoleModel, ...]:
        return (role_model(CRITIC, _critic(asked)), *super().models(asked))

    def today(self, asked: StageContext, host: Host) -> Inputs:
        """The critic is the reward model unless it is given; it has the shape of the policy. Raises InvalidField."""
        inputs = super().today(asked, host)
        begun, critic = inputs[INITIAL][0].begun, _critic(asked)
        assert begun is not None
        made = begun_of(asked.view, CRITIC, critic, host)
        expected = replace(begun.model, scalar_head=True, value_model=False)
        if made.model != expected or made.tokenizer != begun.tokenizer:
            raise asked.view.refused(
                f"from.{CRITIC}",
                seen=f"{checkpoint_of(critic.manifest_key)}, another model or one of another tokenizer",
                expected="a checkpoint of a stage `reward` that began with the same model as the policy",
            )
        return inputs


def _critic(asked: StageContext) -> Result:
    return asked.get(CRITIC) or asked.one(REWARD)


STAGE = PpoStage()
