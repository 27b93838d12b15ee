"""The stage `conversations`: reads prompts or demonstrations, filters them, and splits them into parts."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, ClassVar

from google.protobuf.message import Message
from pydantic import Field

from tutti.chassis.config.recipetext import Part, Real
from tutti.chassis.errors import InvalidField
from tutti.contracts.annotation.v1 import Demonstrations
from tutti.contracts.ingest.v1 import Conversations, ConversationsSource, ConversationsSpec, SplitShare
from tutti.corpus.conversations.conversationset import ConversationsBody
from tutti.corpus.conversations.licences import MOST_CHARACTERS, name_of
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import Folder, Role, StageContext, StageDef, resource_of
from tutti.pipeline.recipes.keytypes import Names, Seed
from tutti.pipeline.recipes.sections import DedupKeys
from tutti.pipeline.recipes.values import Result
from tutti.pipeline.recipes.view import View
from tutti.records.counts import counted
from tutti.records.manifest import Manifest

NEAR, SHOWN_UNREAD = 1e-9, 10
PART = re.compile(r"[a-z][a-z0-9-]{0,39}")
JUDGED = {"rules", "classifiers", "near", "licence", "licences"}
"""The keys that ingest judges."""


class ConversationsSection(Part):
    later = frozenset({"rules", "classifiers", "near", "licence", "licences"})

    path: str = Field(
        default="",
        max_length=4096,
        description="file or folder of JSON lines, JSON lists or Parquet, relative to the folder of the recipe; "
        "layouts are detected: messages, prompt, Alpaca, ShareGPT, HH; or give the input `demonstrations`",
    )
    split: dict[str, Annotated[Real, Field(gt=0, le=1)]] = Field(
        default_factory=dict,
        max_length=20,
        description="shares by part, with sum 1; other stages read a part as NAME.PART",
    )
    seed: Seed = Field(default=0, description="seed of the split")
    rules: Names = Field(
        default_factory=list,
        description="sets of rules that a conversation must pass, such as harm_lexicon; see quality.rules",
    )
    classifiers: Names = Field(
        default_factory=list, description="classifiers that a conversation must pass, such as harm"
    )
    near: Real = Field(
        default=DedupKeys.model_fields["near"].default,
        ge=0,
        le=1,
        description="similarity threshold of near-duplicates, at least 0.7; 0: only equal conversations",
    )
    licence: str = Field(
        default="",
        max_length=MOST_CHARACTERS,
        description="licence of records that have no field `license` or `licence`",
    )
    licences: Names = Field(
        default_factory=list,
        description="licences that a conversation may have, such as cc-by-4.0; others, and unknown ones, are rejected; "
        "none: any",
    )


class ConversationsStage(StageDef):
    name = "conversations"
    work = Conversations
    section = ConversationsSection
    spec_keys: ClassVar[Mapping[str, str]] = {"rule_sets": "rules"}
    roles = (
        Role("demonstrations", Demonstrations, required=False),
        Role("held_out", Conversations, required=False),
    )

    def parts(self, section: ConversationsSection) -> Collection[str]:
        return sorted(section.split)

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        section = _section(view)
        if bool(section.path) == ("demonstrations" in filled):
            seen = "both" if section.path else "neither"
            expected = "a file or a folder, or `from: {demonstrations: …}`"
            yield view.refused("path", seen=seen, expected=expected)
        if section.split and abs(sum(section.split.values()) - 1) > NEAR:
            total = sum(section.split.values())
            yield view.refused("split", seen=f"{total:g} in all", expected="shares that add up to 1")
        for name in section.split:
            if not PART.fullmatch(name):
                expected = "a name of lower-case letters, digits and hyphens, at most 40, a letter first"
                yield view.refused("split", seen=name, expected=expected)
        if "\0" in section.path:
            yield view.refused("path", seen=section.path, expected="a path without a NUL character")

    def folder(self, view: View) -> Folder | None:
        path = _section(view).path
        return Folder("path", path) if path else None

    def request(self, asked: StageContext) -> ConversationsSpec:
        section, read = _section(asked.view), asked.source
        return ConversationsSpec(
            input_path=read.path if read else "",
            input_digest=read.input_digest if read else "",
            split=[SplitShare(name=name, share=share) for name, share in sorted(section.split.items())],
            seed=section.seed,
            logic_version=asked.logic_version,
            demonstrations=_source(Demonstrations, asked.get("demonstrations")),
            held_out=_source(Conversations, asked.get("held_out")),
            rule_sets=sorted(set(section.rules)),
            classifiers=sorted(set(section.classifiers)),
            near=section.near,
            licence=name_of(section.licence),
            licences=sorted(set(map(name_of, section.licences))),
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        section = _section(asked.view)
        filters = {
            "rules": sorted(set(section.rules)),
            "classifiers": sorted(set(section.classifiers)),
            "near": section.near,  # absent for 0, so that results of versions that looked for none are reused for it
            "licence": name_of(section.licence),
            "licences": sorted(set(map(name_of, section.licences))),
        }
        asked_for = {key: value for key, value in filters.items() if value}
        return {"split": dict(section.split), "seed": section.seed, **asked_for}

    def questions(self, view: View) -> Iterator[View]:
        if _section(view).model_fields_set & JUDGED:
            yield view.changed({"path": ""})

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        lines = ConversationsBody.read(manifest).lines
        yield Expected(lines.blob, lines.bytes, lines.bytes_digest)

    def amount(self, view: View, pages: int) -> float:
        return float(max(pages, 1))

    def summary(self, work: Any) -> str:
        rejected = sum(each.records for each in work.rejected)
        share = f", {rejected / (rejected + work.conversations + work.duplicates):.1%}" if rejected else ""
        parts = ", ".join(f"{each.name} {each.conversations:,}" for each in work.parts)
        licences = ", ".join(f"{each.licence} {each.conversations:,}" for each in work.licences)
        unread = ", ".join(each.field for each in work.unread[:SHOWN_UNREAD])
        if (more := len(work.unread) - SHOWN_UNREAD) > 0:
            unread += f" and {more:,} more"
        return (
            f"{counted(work.conversations, 'conversation')} ({counted(work.duplicates, 'duplicate')}, "
            f"{rejected:,} rejected{share})"
            f"{': ' if parts else ''}{parts}{'; licences: ' if licences else ''}{licences}"
            f"{'; fields that were not read: ' if unread else ''}{unread}"
        )


def _source(of: type[Message], result: Result | None) -> ConversationsSource | None:
    if result is None:
        return None
    return ConversationsSource(
        resource=resource_of(of, result),
        manifest_key=result.manifest_key,
        content_digest=result.content_digest,
        part=result.part,
    )


def _section(view: View) -> ConversationsSection:
    return view.section(ConversationsSection)


STAGE = ConversationsStage()
