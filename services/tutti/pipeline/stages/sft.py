"""The stage `sft`: a checkpoint learns to answer as demonstrations do."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Literal

from pydantic import Field

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host
from tutti.contracts.annotation.v1 import Demonstrations
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.ingest.v1 import Conversations
from tutti.corpus.conversations.renderers import OWN
from tutti.corpus.conversations.template import TEMPLATES
from tutti.corpus.tokens.dataset import tokenizer_key
from tutti.corpus.tokens.tokenizer import BytePairTokenizer, TokenizerError
from tutti.model.training import APPENDED_1, RESERVED_1, Conversion
from tutti.pipeline.definitions.definition import Role, StageContext
from tutti.pipeline.definitions.finetuning import FinetuningSection, FinetuningStage
from tutti.pipeline.recipes.begun import Begun
from tutti.pipeline.recipes.imports import INITIAL
from tutti.pipeline.recipes.view import View
from tutti.records.manifest import Kind


class SftSection(FinetuningSection):
    convert: Literal["reserved@1"] | None = Field(
        default=None,
        description="extend a tokenizer without the role tokens of `template`, and the vocabulary of the checkpoint; "
        "reserved@1: a new token begins with the mean of all embeddings",
    )


class SftStage(FinetuningStage):
    name = "sft"
    section = SftSection
    roles = (Role(INITIAL, Checkpoint), Role("demonstrations", Conversations, also=(Demonstrations,)))
    data, reads = "demonstrations", Kind.CONVERSATIONS
    epochs = 3

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        yield from super().problems(view, filled)
        if view.section(SftSection).convert is not None and view.recipe.template == OWN:
            expected = f"nothing beside template: {OWN}, whose tokens the tokenizer has"
            yield view.refused("convert", seen=view.section(SftSection).convert, expected=expected)

    def converted(self, asked: StageContext, begun: Begun, host: Host) -> Begun:
        """Store the extended tokenizer; the training records how the checkpoint is extended."""
        view = asked.view
        if view.section(SftSection).convert is None or view.recipe.template in (None, OWN):
            return begun
        try:
            data = host.blobs.get(tokenizer_key(begun.tokenizer))
            before = BytePairTokenizer.load(data, expected_version=begun.tokenizer)
            after = before.extended(TEMPLATES[view.recipe.template].tokens)
        except (BlobMissing, TokenizerError):
            return begun  # it is refused for the same reason
        if after.version == before.version:
            return begun
        added, rule = after.vocabulary - before.vocabulary, RESERVED_1 if before.marks is None else APPENDED_1
        host.blobs.put_if_absent(tokenizer_key(after.version), after.artefact)
        return replace(
            begun,
            tokenizer=after.version,
            model=replace(begun.model, vocabulary=max(begun.model.vocabulary, after.vocabulary)),
            conversion=Conversion(before.version, before.vocabulary, added, rule) if added else None,
        )


STAGE = SftStage()
