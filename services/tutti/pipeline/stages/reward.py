"""The stage `reward`: a checkpoint with a scalar head learns which of two answers is preferred."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from tutti.contracts.annotation.v1 import Preferences
from tutti.contracts.committer.v1 import Checkpoint
from tutti.model.programs.reward import RewardParameters
from tutti.model.spec import ModelSpec
from tutti.pipeline.definitions.definition import Role
from tutti.pipeline.definitions.finetuning import CALIBRATION, FinetuningSection, FinetuningStage
from tutti.pipeline.recipes.declared import declares
from tutti.pipeline.recipes.imports import INITIAL
from tutti.records.manifest import Kind


@declares(RewardParameters)
class RewardSection(FinetuningSection):
    pass


class RewardStage(FinetuningStage):
    name = "reward"
    section = RewardSection
    roles = (Role(INITIAL, Checkpoint), Role("preferences", Preferences))
    data, reads, rows_of_sample = "preferences", Kind.PREFERENCES, 2
    epochs = 3
    figures: ClassVar[Mapping[str, str]] = {**CALIBRATION, "temperature": "temperature {:.2f}"}
    version = "reward-2"

    def model(self, begun: ModelSpec) -> ModelSpec:
        return replace(super().model(begun), scalar_head=True)


STAGE = RewardStage()
