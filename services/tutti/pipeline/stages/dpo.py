"""The stage `dpo`: a checkpoint learns preferences directly, held near where it began."""

from tutti.contracts.annotation.v1 import Preferences
from tutti.contracts.committer.v1 import Checkpoint
from tutti.model.programs.dpo import DpoParameters
from tutti.pipeline.definitions.definition import Role
from tutti.pipeline.definitions.finetuning import CALIBRATION, FinetuningSection, FinetuningStage
from tutti.pipeline.recipes.declared import declares
from tutti.pipeline.recipes.imports import INITIAL
from tutti.records.manifest import Kind


@declares(DpoParameters, learning_rate=1e-4)
class DpoSection(FinetuningSection):
    pass


class DpoStage(FinetuningStage):
    name = "dpo"
    section = DpoSection
    roles = (Role(INITIAL, Checkpoint), Role("preferences", Preferences))
    data, reads, rows_of_sample = "preferences", Kind.PREFERENCES, 2
    figures = CALIBRATION

    def roles_of_models(self) -> tuple[str, ...]:
        return ("reference",)


STAGE = DpoStage()
