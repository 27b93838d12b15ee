"""The stage `sample`: a checkpoint continues texts, or answers conversations."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.ingest.v1 import Conversations
from tutti.contracts.sampling.v1 import PromptSet, Sample, SampleSpec
from tutti.corpus.conversations.conversationset import Lines
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import MAKE_RUN, Flat, Question, Role, StageContext, StageDef, resource_of
from tutti.pipeline.definitions.tokenized import UNKNOWN, dataset_row, lengths
from tutti.pipeline.recipes.modelsize import NUMBER_BYTES, parameters
from tutti.pipeline.recipes.recipe import Recipe, SamplePart
from tutti.pipeline.recipes.values import Measure, Result
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

    def flat(self, recipe: Recipe) -> Mapping[str, Flat]:
        return {"sample": Flat(recipe)} if recipe.sample is not None else {}

    def apply(self, recipe: Recipe, section: SamplePart) -> Recipe:
        return recipe.model_copy(update={"sample": section})

    def problems(self, recipe: Recipe, filled: Collection[str]) -> Iterator[InvalidField]:
        part, answers = _part(recipe), "prompts" in filled
        if answers and part.prompts:
            yield InvalidField(
                "sample.prompts", seen=f"{len(part.prompts)} prompts", expected="none beside from.prompts"
            )
        if not answers and not part.prompts:
            expected = "at least 1 item; set sample.prompts in the recipe, or give --set sample.prompts=…"
            yield InvalidField("sample.prompts", seen="nothing", expected=expected)
        if not answers and part.each is not None:
            yield InvalidField("sample.each", seen=part.each, expected="nothing without `from: {prompts: …}`")

    def request(self, asked: StageContext) -> SampleSpec:
        checkpoint = resource_of(Checkpoint, asked.one("checkpoint"))
        values = _part(asked.recipe).model_dump(exclude_none=True)
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
        return _part(asked.recipe).model_dump(exclude_none=True)

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        if "lines" in manifest.body:
            yield Expected.lines(Lines.of(manifest))

    def questions(self, recipe: Recipe) -> Iterator[Question]:
        if _part(recipe).prompts:
            yield Question(recipe, {key: f"sample.{key}" for key in SamplePart.model_fields})

    def foreseen(self, recipe: Recipe, host: Host) -> None:
        of = recipe.tokenizer.of if recipe.tokenizer.of.startswith("tokenizers/") else UNKNOWN
        if of or not (recipe.tokenizer.of or recipe.tokenizer.pattern):
            _check_prompts(recipe, of, host)

    def fits(self, recipe: Recipe, dataset: Result, host: Host) -> None:
        found = dataset_row(host, dataset)
        if found is not None:
            _check_prompts(recipe, found.tokenizer, host)

    def amount(self, recipe: Recipe, pages: int) -> float:
        """Tokens at most; 0 where the number of prompts is not known."""
        return float(len(_part(recipe).prompts) * _part(recipe).tokens)

    def memory(self, recipe: Recipe) -> int | None:
        """The model, where this recipe trains it."""
        return NUMBER_BYTES * parameters(recipe) or None

    def summary(self, work: Any) -> str:
        return f"{work.tokens:,} tokens of {work.spec.checkpoint}"


def _check_prompts(recipe: Recipe, tokenizer: str, host: Host) -> None:
    """Refuse a prompt that fills the context. Raises InvalidField."""
    context = recipe.data.context
    for number, tokens in enumerate(lengths(host, _part(recipe).prompts, tokenizer)):
        if tokens >= context:
            raise InvalidField(
                "sample.prompts",
                seen=f"prompt {number} of {'' if tokenizer else 'at least '}{tokens:,} tokens",
                expected=f"at most {context - 1:,} tokens, since data.context ({context:,}) must have room for one "
                f"more; shorten it by at least {tokens - context + 1:,}",
            )


def _part(recipe: Recipe) -> SamplePart:
    assert recipe.sample is not None
    return recipe.sample


STAGE = SampleStage()
