"""The stage `dpo`: a checkpoint learns preferences directly, held near where it began."""

from pydantic import Field

from tutti.chassis.config.recipetext import Real
from tutti.contracts.annotation.v1 import Preferences
from tutti.contracts.committer.v1 import Checkpoint
from tutti.model.programs.dpo import DpoParameters
from tutti.pipeline.definitions.definition import Role
from tutti.pipeline.definitions.finetuning import CALIBRATION, INITIAL, FinetuningSection, FinetuningStage
from tutti.pipeline.recipes.view import View
from tutti.records.manifest import Kind


class DpoSection(FinetuningSection):
    beta: Real = Field(
        default=0.1, gt=0, description="strength of the penalty for deviating from the initial checkpoint"
    )
    learning_rate: Real = Field(default=1e-4, gt=0, description="peak learning rate")


class DpoStage(FinetuningStage):
    name = "dpo"
    section = DpoSection
    roles = (Role(INITIAL, Checkpoint), Role("preferences", Preferences))
    data, reads, rows_of_sample = "preferences", Kind.PREFERENCES, 2
    figures = CALIBRATION

    def roles_of_models(self) -> tuple[str, ...]:
        return ("reference",)

    def program_parameters(self, view: View) -> DpoParameters:
        section = view.section(DpoSection)
        return DpoParameters(held_out=section.held_out, beta=section.beta)


STAGE = DpoStage()
