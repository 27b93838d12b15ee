"""The stage `tokenization`: trains a tokenizer, or takes an earlier one, and packs documents into a dataset."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.dedup.v1 import Dedup
from tutti.contracts.ingest.v1 import Ingest
from tutti.contracts.pipeline.v1 import RunFigures
from tutti.contracts.tokenization.v1 import Dataset, Tokenization, TokenizationSpec
from tutti.corpus.conversations.renderers import OWN
from tutti.corpus.conversations.template import TEMPLATES
from tutti.corpus.tokens.dataset import DatasetBody
from tutti.pipeline.definitions.blobchecks import Checked, Expected, ExpectedTokenizer
from tutti.pipeline.definitions.checkpoints import begun_of, tokenizer_of
from tutti.pipeline.definitions.definition import MAKE_RUN, Role, StageContext, StageDef
from tutti.pipeline.recipes.imports import TOKENIZER
from tutti.pipeline.recipes.sections import TokenizationSection
from tutti.pipeline.recipes.values import Inputs, Measure, Resident
from tutti.pipeline.recipes.view import View
from tutti.records.manifest import Manifest

BYTES = 256


class TokenizationStage(StageDef):
    name = "tokenization"
    work = Tokenization
    makes = Dataset
    section = TokenizationSection
    roles = (
        Role("documents", Dedup, default="dedup"),
        Role("measures", Ingest, default="ingest", required=False, decides=False),
        Role(TOKENIZER, Checkpoint, required=False, decides=False),  # the tokenizer itself decides
    )
    measured = Measure(MAKE_RUN, 2.1, 649, 2_552_000)
    resident = Resident("benchmarks.tokenization", 441_000_000, 460)

    def request(self, asked: StageContext) -> TokenizationSpec:
        section, documents, measures = _section(asked.view), asked.one("documents"), asked.get("measures")
        taken = _taken(asked)
        return TokenizationSpec(
            manifest_key=documents.manifest_key,
            content_digest=documents.content_digest,
            vocabulary=section.vocabulary,
            pattern=section.pattern,
            context=section.context,
            validation_fraction=section.validation_fraction,
            seed=section.seed,
            shard_sequences=section.shard_sequences,
            tokenizer=taken.of,
            packing=section.packing,
            reserved=reserved(asked.view),
            measures_key=measures.manifest_key if measures else "",
            measures_digest=measures.content_digest if measures else "",
            logic_version=asked.logic_version,
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        found = _taken(asked).parameters()
        return found | {"reserved": list(tokens)} if (tokens := reserved(asked.view)) else found

    def today(self, asked: StageContext, host: Host) -> Inputs:
        """With the tokenizer of the checkpoint. Raises InvalidField."""
        checkpoint = asked.get(TOKENIZER)
        if checkpoint is None:
            return asked.inputs
        begun = begun_of(asked.view, TOKENIZER, checkpoint, host)
        if not (version := tokenizer_of(begun, host)):
            seen, expected = f"{begun.dataset} without a tokenizer", "a checkpoint of a known dataset"
            raise asked.view.refused(f"from.{TOKENIZER}", seen=seen, expected=expected)
        return {**asked.inputs, TOKENIZER: (replace(checkpoint, begun=replace(begun, tokenizer=version)),)}

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        section, least = _section(view), BYTES + len(reserved(view)) + 1
        if TOKENIZER in filled:
            (given,), fields = view.instance.inputs[TOKENIZER], TokenizationSection.model_fields
            for key in ("of", "pattern", "vocabulary"):
                if (seen := getattr(section, key)) not in (fields[key].default, given):
                    yield view.refused(key, seen=seen, expected=f"nothing beside the tokenizer of {given}")
            return
        if section.vocabulary < least:
            of = view.recipe.template
            expected = f"at least {least}: every byte, the role tokens of {of}, and the end of text"
            yield view.refused("vocabulary", seen=section.vocabulary, expected=expected)

    def questions(self, view: View) -> Iterator[View]:
        if _section(view).pattern:
            yield view

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        dataset = DatasetBody.read(manifest)
        for split in (dataset.train, dataset.validation):
            yield from (Expected(shard.blob, shard.bytes, shard.bytes_digest) for shard in split.shards)
        yield ExpectedTokenizer(dataset.tokenizer_version)

    def summary(self, work: Any) -> str:
        return f"{work.tokens:,} tokens to train on, {work.validation_tokens:,} held out"

    def run_figures(self, work: Any) -> RunFigures:
        return RunFigures(tokens=work.tokens)


def reserved(view: View) -> tuple[str, ...]:
    """Return the tokens that a tokenizer reserves that this stage trains: the role tokens of the chat template."""
    section, template = _section(view), view.recipe.template
    if template in (None, OWN) or section.of or TOKENIZER in view.instance.inputs or not section.reserve:
        return ()
    return TEMPLATES[template].tokens


def _taken(asked: StageContext) -> TokenizationSection:
    """The keys of the stage; `of` is the tokenizer of the checkpoint that it was given, if any."""
    section, checkpoint = _section(asked.view), asked.get(TOKENIZER)
    if checkpoint is None or checkpoint.begun is None:
        return section
    return section.model_copy(update={"of": f"tokenizers/{checkpoint.begun.tokenizer.removeprefix('blake3:')}"})


def _section(view: View) -> TokenizationSection:
    return view.section(TokenizationSection)


STAGE = TokenizationStage()
