"""The stage `sample`: a checkpoint continues texts, or answers conversations."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.ingest.v1 import Conversations
from tutti.contracts.sampling.v1 import PromptSet, Sample, SampleSpec
from tutti.corpus.conversations.conversationset import Lines
from tutti.model.footprint import NUMBER_BYTES
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import MAKE_RUN, Role, StageContext, StageDef, resource_of
from tutti.pipeline.definitions.pretraining import goes_on_with_import, parameters
from tutti.pipeline.definitions.tokenized import UNKNOWN, dataset_row, lengths
from tutti.pipeline.recipes.sections import SamplePart
from tutti.pipeline.recipes.values import Measure, Result
from tutti.pipeline.recipes.view import View
from tutti.records.manifest import Manifest


class SampleStage(StageDef):
    name = "sample"
    work = Sample
    roles = (
        Role("checkpoint", Checkpoint, default="train"),
        Role("prompts", Conversations, required=False),
    )
    section = SamplePart
    measured = Measure(MAKE_RUN, 2.0, 4 * 48, 1_500)

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        part, answers = _part(view), "prompts" in filled
        if answers and part.prompts:
            yield view.refused("prompts", seen=f"{len(part.prompts)} prompts", expected="none beside from.prompts")
        if not answers and not part.prompts:
            key = view.key("prompts")
            expected = f"at least 1 item; set {key} in the recipe, or give --set {key}=…"
            yield view.refused("prompts", seen="nothing", expected=expected)
        if not answers and part.each is not None:
            yield view.refused("each", seen=part.each, expected="nothing without `from: {prompts: …}`")

    def request(self, asked: StageContext) -> SampleSpec:
        checkpoint = resource_of(Checkpoint, asked.one("checkpoint"))
        values = _part(asked.view).model_dump(exclude_none=True)
        spec = SampleSpec(checkpoint=checkpoint, logic_version=asked.logic_version, **values)
        if (prompts := asked.get("prompts")) is not None:
            spec.prompt_set.CopyFrom(
                PromptSet(
                    conversations=resource_of(Conversations, prompts),
                    manifest_key=prompts.manifest_key,
                    content_digest=prompts.content_digest,
                    part=prompts.part,
                )
            )
        return spec

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        return _part(asked.view).model_dump(exclude_none=True)

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        if "lines" in manifest.body:
            yield Expected.lines(Lines.of(manifest))

    def questions(self, view: View) -> Iterator[View]:
        if _part(view).prompts:
            yield view

    def foreseen(self, view: View, host: Host) -> None:
        tokens = view.tokens
        of = tokens.of if tokens.of.startswith("tokenizers/") else UNKNOWN
        if of or not (tokens.of or tokens.pattern):
            _check_prompts(view, of, host)

    def fits(self, view: View, dataset: Result, host: Host) -> None:
        found = dataset_row(host, dataset)
        if found is not None:
            _check_prompts(view, found.tokenizer, host)

    def amount(self, view: View, pages: int) -> float:
        """Tokens at most; 0 where the number of prompts is not known."""
        return float(len(_part(view).prompts) * _part(view).tokens)

    def memory(self, view: View) -> int | None:
        """The model, where this recipe trains it."""
        return NUMBER_BYTES * parameters(view) or None

    def summary(self, work: Any) -> str:
        return f"{work.tokens:,} tokens of {work.spec.checkpoint}"


def _check_prompts(view: View, tokenizer: str, host: Host) -> None:
    """Refuse a prompt that fills the context. Raises InvalidField."""
    if goes_on_with_import(view):
        return  # its model has a context of its own
    context = view.tokens.context
    for number, tokens in enumerate(lengths(host, _part(view).prompts, tokenizer)):
        if tokens >= context:
            raise view.refused(
                "prompts",
                seen=f"prompt {number} of {'' if tokenizer else 'at least '}{tokens:,} tokens",
                expected=f"at most {context - 1:,} tokens, since data.context ({context:,}) must have room for one "
                f"more; shorten it by at least {tokens - context + 1:,}",
            )


def _part(view: View) -> SamplePart:
    return view.section(SamplePart)


STAGE = SampleStage()
