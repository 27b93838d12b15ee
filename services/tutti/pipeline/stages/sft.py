"""The stage `sft`: a checkpoint learns to answer as demonstrations do."""

from tutti.contracts.annotation.v1 import Demonstrations
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.ingest.v1 import Conversations
from tutti.corpus.manifest import Kind
from tutti.model.programs.sft import SftParameters
from tutti.pipeline.finetuning import INITIAL, FinetuningSection, FinetuningStage
from tutti.pipeline.recipe import Recipe
from tutti.pipeline.stages.definition import Role


class SftStage(FinetuningStage):
    name = "sft"
    section = FinetuningSection
    roles = (Role(INITIAL, Checkpoint), Role("demonstrations", Conversations, also=(Demonstrations,)))
    data, reads = "demonstrations", Kind.CONVERSATIONS
    epochs = 3

    def program_parameters(self, recipe: Recipe) -> SftParameters:
        return SftParameters(held_out=recipe.section(FinetuningSection).held_out)


STAGE = SftStage()
