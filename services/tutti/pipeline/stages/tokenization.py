"""The stage `tokenization`: trains a tokenizer, or takes an earlier one, and packs documents into a dataset."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import Field

from tutti.chassis.errors import InvalidField
from tutti.contracts.dedup.v1 import Dedup
from tutti.contracts.ingest.v1 import Ingest
from tutti.contracts.tokenization.v1 import Dataset, Tokenization, TokenizationSpec
from tutti.corpus.conversations.template import TEMPLATES
from tutti.corpus.tokens.dataset import DatasetBody
from tutti.pipeline.definitions.blobchecks import Checked, Expected, ExpectedTokenizer
from tutti.pipeline.definitions.definition import MAKE_RUN, Flat, Question, Role, StageContext, StageDef
from tutti.pipeline.recipes.recipe import DataPart, Recipe, TokenizerPart
from tutti.pipeline.recipes.values import Measure, Resident
from tutti.records.manifest import Manifest

BYTES = 256


class TokenizationSection(DataPart):
    vocabulary: int = Field(
        default=4096, ge=257, lt=2**20, description="number of tokens: 256 bytes, merges, end of text"
    )
    pattern: str = Field(
        default="",
        max_length=2000,
        description="regular expression that splits text before merging; empty: that of Llama 3",
    )


class TokenizationStage(StageDef):
    name = "tokenization"
    work = Tokenization
    makes = Dataset
    section = TokenizationSection
    flat_keys = ("tokenizer", "data")
    roles = (
        Role("documents", Dedup, default="dedup"),
        Role("measures", Ingest, default="ingest", required=False, decides=False),
    )
    measured = Measure(MAKE_RUN, 2.1, 649, 2_552_000)
    resident = Resident("benchmarks.tokenization", 441_000_000, 460)

    def flat(self, recipe: Recipe) -> Mapping[str, Flat]:
        return {"tokenization": Flat(recipe)} if recipe.reads_pages else {}

    def apply(self, recipe: Recipe, section: TokenizationSection) -> Recipe:
        data = DataPart(**section.model_dump(exclude={"vocabulary", "pattern"}))
        tokenizer = TokenizerPart(vocabulary=section.vocabulary, pattern=section.pattern)
        return recipe.model_copy(update={"data": data, "tokenizer": tokenizer})

    def request(self, asked: StageContext) -> TokenizationSpec:
        recipe, documents, measures = asked.recipe, asked.one("documents"), asked.get("measures")
        return TokenizationSpec(
            manifest_key=documents.manifest_key,
            content_digest=documents.content_digest,
            vocabulary=recipe.tokenizer.vocabulary,
            pattern=recipe.tokenizer.pattern,
            context=recipe.data.context,
            validation_fraction=recipe.data.validation_fraction,
            seed=recipe.data.seed,
            shard_sequences=recipe.data.shard_sequences,
            tokenizer=recipe.tokenizer.of,
            packing=recipe.data.packing,
            reserved=reserved(recipe),
            measures_key=measures.manifest_key if measures else "",
            measures_digest=measures.content_digest if measures else "",
            logic_version=asked.logic_version,
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        found: dict[str, object] = {**asked.recipe.tokenizer.parameters(), **asked.recipe.data.parameters()}
        return found | {"reserved": list(tokens)} if (tokens := reserved(asked.recipe)) else found

    def problems(self, recipe: Recipe, filled: Collection[str]) -> Iterator[InvalidField]:
        least = BYTES + len(reserved(recipe)) + 1
        if recipe.tokenizer.vocabulary < least:
            yield InvalidField(
                "tokenizer.vocabulary",
                seen=recipe.tokenizer.vocabulary,
                expected=f"at least {least}: every byte, the role tokens of {recipe.template}, and the end of text",
            )

    def questions(self, recipe: Recipe) -> Iterator[Question]:
        if recipe.tokenizer.pattern:
            yield Question(recipe, {"pattern": "tokenizer.pattern"})

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        dataset = DatasetBody.read(manifest)
        for split in (dataset.train, dataset.validation):
            yield from (Expected(shard.blob, shard.bytes, shard.bytes_digest) for shard in split.shards)
        yield ExpectedTokenizer(dataset.tokenizer_version)

    def summary(self, work: Any) -> str:
        return f"{work.tokens:,} tokens to train on, {work.validation_tokens:,} held out"


def reserved(recipe: Recipe) -> tuple[str, ...]:
    """Return the tokens that a tokenizer reserves that this recipe trains: the role tokens of its chat template."""
    if recipe.template is None or recipe.tokenizer.of or not recipe.tokenizer.reserve:
        return ()
    return TEMPLATES[recipe.template].tokens


STAGE = TokenizationStage()
