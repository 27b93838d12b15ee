"""The stage `conversations`: reads prompts or demonstrations out of files, and splits them into parts."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from tutti.chassis.config.recipetext import Part, Real
from tutti.chassis.errors import InvalidField
from tutti.contracts.ingest.v1 import Conversations, ConversationsSpec, SplitShare
from tutti.corpus.conversationset import ConversationsBody
from tutti.corpus.manifest import Manifest
from tutti.pipeline.blobchecks import Checked, Expected
from tutti.pipeline.recipe import InputPart, Recipe, Seed
from tutti.pipeline.stages.definition import Folder, StageContext, StageDef

NEAR = 1e-9
PART = re.compile(r"[a-z][a-z0-9-]{0,39}")


class ConversationsSection(Part):
    path: str = Field(
        min_length=1,
        max_length=4096,
        description="file or folder of JSON lines or JSON lists, relative to the folder of the recipe; "
        "layouts are detected: messages, prompt, Alpaca, ShareGPT, HH",
    )
    split: dict[str, Annotated[Real, Field(gt=0, le=1)]] = Field(
        default_factory=dict,
        max_length=20,
        description="shares by part, with sum 1; other stages read a part as NAME.PART",
    )
    seed: Seed = Field(default=0, description="seed of the split")


class ConversationsStage(StageDef):
    name = "conversations"
    work = Conversations
    section = ConversationsSection

    def apply(self, recipe: Recipe, section: ConversationsSection) -> Recipe:
        limit = InputPart.model_fields["max_file_bytes"].default
        read = recipe.input.model_copy(update={"max_file_bytes": limit})
        return recipe.model_copy(update={"input": read}).with_section(section)

    def parts(self, section: ConversationsSection) -> Collection[str]:
        return sorted(section.split)

    def problems(self, recipe: Recipe, filled: Collection[str]) -> Iterator[InvalidField]:
        section = _section(recipe)
        if section.split and abs(sum(section.split.values()) - 1) > NEAR:
            total = sum(section.split.values())
            yield InvalidField("conversations.split", seen=f"{total:g} in all", expected="shares that add up to 1")
        for name in section.split:
            if not PART.fullmatch(name):
                expected = "a name of lower-case letters, digits and hyphens, at most 40, a letter first"
                yield InvalidField("conversations.split", seen=name, expected=expected)
        if "\0" in section.path:
            yield InvalidField("conversations.path", seen=section.path, expected="a path without a NUL character")

    def folder(self, recipe: Recipe) -> Folder | None:
        return Folder("conversations.path", _section(recipe).path)

    def request(self, asked: StageContext) -> ConversationsSpec:
        section, read = _section(asked.recipe), asked.source
        return ConversationsSpec(
            input_path=read.path if read else "",
            input_digest=read.input_digest if read else "",
            split=[SplitShare(name=name, share=share) for name, share in sorted(section.split.items())],
            seed=section.seed,
            logic_version=asked.logic_version,
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        section = _section(asked.recipe)
        return {"split": dict(section.split), "seed": section.seed}

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        lines = ConversationsBody.read(manifest).lines
        yield Expected(lines.blob, lines.bytes, lines.bytes_digest)

    def amount(self, recipe: Recipe, pages: int) -> float:
        return float(max(pages, 1))

    def summary(self, work: Any) -> str:
        rejected = sum(each.records for each in work.rejected)
        parts = ", ".join(f"{each.name} {each.conversations:,}" for each in work.parts)
        return (
            f"{work.conversations:,} conversations ({work.duplicates:,} duplicates, {rejected:,} rejected)"
            f"{': ' if parts else ''}{parts}"
        )


def _section(recipe: Recipe) -> ConversationsSection:
    return recipe.section(ConversationsSection)


STAGE = ConversationsStage()
