"""The keys of the stages that top-level keys of a recipe can ask for, and those of the whole recipe.

Each key is declared once. A stage reads its section; `sugar` says at which top-level keys a recipe has the same keys.
`later` names the keys of a class that are recorded only where they differ from their default.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tutti.chassis.config.recipetext import Part, Real
from tutti.model.spec import ModelSpec, OptimizerSpec, RopeScaling, StepSpec
from tutti.model.training import Training
from tutti.pipeline.recipes.declared import Declaring, declares
from tutti.pipeline.recipes.keytypes import LONGEST, Count, Names, Positive, Prompts, Seed, Urls
from tutti.pipeline.recipes.sizes import Size

MOST_REJECTED = 0.5
NONE: frozenset[str] = frozenset()


class MixturePart(Part):
    datasets: dict[str, Annotated[Real, Field(gt=0)]] = Field(
        min_length=1,
        max_length=16,
        description="earlier datasets to train on too, each a run or datasets/…, with a weight; they must "
        "have the tokenizer of tokenizer.of, or of the import that the recipe trains, and the context data.context",
    )
    own: Real = Field(
        default=1.0, gt=0, description="weight of the dataset of this run, on which the model is validated"
    )
    by: Literal["weight", "epochs"] = Field(
        default="weight",
        description="meaning of the numbers. weight: whole numbers, the shares of the sequences; epochs: "
        "how often each dataset is read, relative to the others",
    )


@declares(RopeScaling, fast=None, attention=None)
class RopeScalingPart(Declaring):
    """The keys of the scaling of rotary positions."""


@declares(ModelSpec, width=None, layers=None, heads=None, kv_heads=None, hidden=None)
class ModelPart(Declaring):
    """The keys of a model that is of none of the sizes. A key without a value has that of the size."""

    rope_scaling: RopeScalingPart | None = Field(
        default=None, description="scaling of rotary positions to a longer context"
    )


class CommonKeys(Part):
    """The keys of the whole recipe, which every stage can read."""

    later: ClassVar[frozenset[str]] = frozenset({"template", "mixture", "model"})

    name: str = Field(
        default="run", min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]+$", description="name of the run in lists"
    )
    size: Size = Field(default="small", description="size of the model")
    model: ModelPart | None = Field(default=None, description="model that differs from that of size, key by key")
    engine: Literal["local", "ray"] = Field(
        default="local",
        description="where pages are read and documents compared: on this machine, or on a Ray cluster; "
        "does not affect the result",
    )
    template: Literal["chat@1", "own"] | None = Field(
        default=None,
        description="chat template that turns conversations into tokens; a new tokenizer reserves the role tokens of "
        "chat@1 (unless tokenizer.reserve is false); own: the template that came with an imported model; default: none",
    )
    mixture: MixturePart | None = Field(default=None, description="other datasets to train on")
    crowd: str = Field(
        default="",
        max_length=LONGEST,
        description="file (.yaml) that defines simulated annotators, or its text, for every named stage whose `crowd` "
        "has no `simulated`",
    )


class CrawlPart(Part):
    """The keys of a crawl, as top-level keys have them."""

    later: ClassVar[frozenset[str]] = frozenset({"since"})

    seeds: Urls = Field(min_length=1, description="URLs where the crawl starts")
    contact: str = Field(
        min_length=1, max_length=200, description="how the visited sites can reach you: a URL or an email address"
    )
    within: Urls = Field(default_factory=list, description="URL prefixes to include; none: the hosts of the seeds")
    without: Urls = Field(default_factory=list, description="URL prefixes to exclude")
    depth: Count = Field(default=20, description="maximum number of links from a seed")
    pages: Positive = Field(default=10_000, description="maximum number of pages to visit")
    pages_of_host: Count = Field(
        default=0, description="maximum number of pages to visit on one host; 0: as many as pages"
    )
    alike: Positive = Field(
        default=1_000, description="maximum number of URLs that differ only in digits or parameter values"
    )
    delay_seconds: Real = Field(default=1.0, ge=0, le=3600, description="minimum delay between two requests to a host")
    connections: Positive = Field(default=1, description="maximum number of parallel connections to a host")
    page_bytes: int = Field(
        default=10 << 20, ge=1, lt=2**31, description="maximum size of a response; larger ones are rejected"
    )
    page_seconds: Real = Field(default=60.0, gt=0, le=3600, description="timeout of a response")
    allow_private: bool = Field(default=False, description="allow addresses outside the public internet")
    sitemaps: bool = Field(default=True, description="visit the URLs in the sitemaps of the seeds' hosts")
    connect: dict[str, str] = Field(
        default_factory=dict, max_length=100, description="address:port by host name, to use instead of DNS"
    )
    edition: str = Field(
        default="", max_length=100, description="change it to crawl again instead of reusing an earlier crawl"
    )
    since: str = Field(
        default="",
        max_length=200,
        description="an earlier run, or its crawl (crawls/…); its pages are fetched again only if they have changed",
    )

    def parameters(self) -> dict[str, object]:
        """The parameters that determine which pages are found, not how fast or from where; keys without a value are
        absent.
        """
        later = {name for name in ("since", "allow_private") if not getattr(self, name)}
        return self.model_dump(exclude={"contact", "delay_seconds", "connections", "connect", *later})


class CrawlSection(CrawlPart):
    later = NONE


class TextKeys(Part):
    """The key of every stage that reads texts."""

    text_field: str = Field(
        default="text", min_length=1, max_length=200, description="field with the text, in JSON lines and Parquet"
    )


class FileKeys(TextKeys):
    """The keys of reading files."""

    later: ClassVar[frozenset[str]] = frozenset({"most_rejected"})

    path: str = Field(
        default="",
        max_length=4096,
        description="folder or file with texts, relative to the folder of the recipe; or use a crawl",
    )
    limit: Count = Field(default=0, description="number of files to read, in path order; 0: all")
    max_file_bytes: int = Field(
        default=50 << 20, ge=1, lt=2**40, description="maximum size of a page, line or record; larger ones are rejected"
    )
    most_rejected: Real = Field(
        default=MOST_REJECTED,
        ge=0,
        le=1,
        description="maximum share of rejected pages and records; above it, the run stops",
    )


class MeasuredKeys(Part):
    """The keys of what is done with a document when it is read."""

    mask: Names = Field(
        default_factory=list,
        description="personal data to replace with a placeholder: email, phone, key, card, address",
    )
    classifiers: Names = Field(
        default_factory=list,
        description="classifiers that reject documents, by rules NAME.LABEL; each is a trained classifier "
        "(NAME or NAME@DIGEST), or a .yaml file, relative to the folder of this recipe, whose classifier "
        "`tutti run` trains first",
    )


class IngestSection(FileKeys, MeasuredKeys):
    later = frozenset({"classifiers", "most_rejected"})


class FilterSection(Part):
    rules: Names = Field(
        default_factory=list,
        description="sets of rules that a document must pass: gopher_quality, gopher_repetition, c4, "
        "fineweb, no_pii, harm_lexicon",
    )
    thresholds: dict[str, Real] = Field(
        default_factory=dict, max_length=100, description="thresholds that differ from the published ones, by rule"
    )
    languages: Names = Field(
        default_factory=list, description="ISO 639 codes of the languages or macro-languages to include; none: all"
    )


class CleanKeys(Part):
    """The key of what dedup removes from each text."""

    later: ClassVar[frozenset[str]] = frozenset({"clean"})

    clean: Literal["none", "c4"] = Field(
        default="none", description="c4: remove from the training text the lines that C4 removes"
    )


class OverlapPart(Part):
    """Documents that count as containing an evaluation text."""

    words: int = Field(default=13, ge=1, le=1000, description="number of words in an n-gram; 13 as in GPT-3")
    share: Real = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="a document that contains more than this share of the n-grams of an evaluation text is removed",
    )


class LinesPart(Part):
    unit: Literal["line", "paragraph"] = Field(default="line", description="unit of text to compare")
    most: Positive = Field(
        default=6,
        description="maximum number of documents with the same unit; a more frequent unit is cut; 6 as in Llama 3",
    )
    keep: Count = Field(
        default=0, description="number of documents that keep a frequent unit; most 1 with keep 1 is the rule of CCNet"
    )
    least_characters: Positive = Field(default=1, description="minimum length of a unit; shorter ones are kept")
    left: Positive = Field(
        default=100, description="minimum length in characters of a document after cutting; shorter ones are removed"
    )


class DedupKeys(Part):
    """The keys of dedup."""

    near: Real = Field(
        default=0.8,
        ge=0,
        le=1,
        description="similarity threshold of near-duplicates, at least 0.7; 0: only equal texts",
    )
    against: Names = Field(
        default_factory=list,
        description="earlier datasets (datasets/…); documents similar to theirs are removed",
    )
    lines: LinesPart | None = Field(default=None, description="removal of repeated lines or paragraphs")


class DedupSection(DedupKeys, CleanKeys):
    later = frozenset({"against"})

    @property
    def overlap(self) -> OverlapPart | None:
        """The overlap with evaluation texts for which documents are removed."""
        return None


class CleanedSection(DedupSection):
    """The section of the stage that top-level keys ask for, which can remove evaluation texts."""

    decontaminate: OverlapPart | None = None

    @property
    def overlap(self) -> OverlapPart | None:
        return self.decontaminate


class TokenizerPart(Part):
    """The keys of a tokenizer."""

    later: ClassVar[frozenset[str]] = frozenset({"of", "reserve"})

    vocabulary: int = Field(
        default=4096, ge=257, lt=2**20, description="number of tokens: 256 bytes, learned merges, end of text"
    )
    pattern: str = Field(
        default="",
        max_length=2000,
        description="regular expression that splits text before merging; empty: that of Llama 3",
    )
    of: str = Field(
        default="",
        max_length=200,
        description="a run, dataset (datasets/…) or checkpoint (checkpoints/…) whose tokenizer is reused; empty: train "
        "a new one, or take that of the import that a stage `train` begins with",
    )
    reserve: bool = Field(
        default=True,
        description="reserve the role tokens of `template` in a new tokenizer; false: the base is that of a "
        "recipe without a template, and `sft` adds the tokens (`convert`)",
    )


class DataPart(Part):
    """The keys of sequences of tokens."""

    later: ClassVar[frozenset[str]] = frozenset({"packing"})

    context: int = Field(default=256, ge=2, lt=2**20, description="tokens per sequence")
    validation_fraction: Real = Field(
        default=0.05, gt=0, lt=1, description="share of documents held out for validation"
    )
    seed: Seed = Field(default=0, description="seed of the validation split and of the order of documents")
    shard_sequences: Positive = Field(default=65_536, description="maximum number of sequences per token shard")
    packing: Literal["stream", "best_fit"] = Field(
        default="stream",
        description="how documents are packed into sequences. stream: concatenated and cut; best_fit: "
        "whole documents, and the remainders of longer ones, in padded sequences",
    )


class TokenizationSection(DataPart, TokenizerPart):
    later = frozenset({"of", "reserve"})

    def parameters(self) -> dict[str, object]:
        """The parameters that determine the dataset; without `packing` at its default, so that earlier keys stay
        valid.
        """
        tokens = {"of"} if self.of else {"vocabulary", "pattern"}
        packed = {"packing"} if self.packing == "stream" else set()
        return self.model_dump(include=tokens | (DataPart.model_fields.keys() - packed))


class JobKeys(Declaring):
    """The keys of every training about its ranks."""

    ranks: Positive = Field(
        default=1, description="number of training processes, at most microbatches; does not affect the result"
    )
    batch: Positive | None = Field(default=None, description="rows per step: microbatches x rows; give rows or batch")
    shrink: bool = Field(default=False, description="continue with fewer ranks when nodes are lost")
    attempts: Positive = Field(
        default=5, description="number of attempts without a new checkpoint after which the job fails"
    )


class ShardKeys(Part):
    """The key of trainings that can shard the parameters."""

    shard: Literal["optimizer", "parameters"] = Field(
        default="optimizer",
        description="what each rank keeps of its share of the model only. optimizer: the state of the optimizer; "
        "parameters: the parameters too, which takes less memory and more exchange; does not affect the result",
    )

    @property
    def sharded(self) -> str:
        """The `shard` of the job; "" for the default."""
        return "" if self.shard == "optimizer" else self.shard


@declares(*(OptimizerSpec, StepSpec, Training), learning_rate=3e-3, rows=None, warmup=None, checkpoint_every=None)
class TrainPart(JobKeys, ShardKeys):
    later = frozenset({"shard", "batch", "beta1", "beta2", "spikes"})

    tied_embeddings: bool = Field(default=False, description="use one matrix for input and output embeddings")
    document_mask: bool = Field(default=True, description="prevent attention between tokens of different documents")


class SamplePart(Part):
    later = frozenset({"each"})

    prompts: Prompts = Field(
        default_factory=list,
        description="texts to continue with the last checkpoint, each with fewer tokens than "
        "data.context; an empty one starts a new text",
    )
    tokens: Positive = Field(default=64, description="maximum number of tokens to generate for each prompt")
    temperature: Real = Field(default=1.0, ge=0, description="sampling temperature; 0: always the most likely token")
    top_p: Real = Field(
        default=1.0,
        gt=0,
        le=1,
        description="sample only from the most likely tokens that together reach this probability",
    )
    seed: Seed = Field(default=0, description="seed of sampling; the same seed gives the same texts")
    each: Positive | None = Field(
        default=None, le=64, description="texts to generate for each conversation of the input `prompts`; default: 1"
    )


class IndexSection(Part):
    """An index has no keys of its own."""
