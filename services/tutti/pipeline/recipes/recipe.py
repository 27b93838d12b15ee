"""The recipe: everything that a run needs to know, with all defaults filled in.

Promises: equal recipes have equal canonical JSON and so an equal digest. How its text is read is in `reading`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, PrivateAttr

from tutti.chassis.config import recipetext
from tutti.chassis.config.recipetext import Part, Real
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.training import Training, WeightedDataset
from tutti.pipeline.recipes.sizes import SIZES, Size
from tutti.records.canonical import canonical_json, content_digest

P = TypeVar("P", bound=Part)
Count = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[int, Field(ge=1, lt=2**31)]
PARTED = ("conversations/",)
"""Prefixes of names of resources that can be split into parts; these names contain no dot."""
MAX_MICROBATCHES = 4096  # every one is a leaf of every step's plan
Seed = Annotated[int, Field(ge=0, lt=2**53)]
LONGEST = 16 << 10
"""Characters of a text in a recipe, or of a file that a key names."""


Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=100)]
Urls = Annotated[list[Annotated[str, Field(min_length=1, max_length=2000)]], Field(max_length=1000)]


class CrawlPart(Part):
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


MOST_REJECTED = 0.5


class FileKeys(Part):
    """The keys of reading files, flat and in a named stage."""

    limit: Count = Field(default=0, description="number of files to read, in path order; 0: all")
    max_file_bytes: int = Field(
        default=50 << 20, ge=1, lt=2**40, description="maximum size of a page, line or record; larger ones are rejected"
    )
    text_field: str = Field(
        default="text", min_length=1, max_length=200, description="field with the text, in JSON lines and Parquet"
    )


class InputPart(FileKeys):
    path: str = Field(
        default="",
        max_length=4096,
        description="folder or file with texts, relative to the folder of the recipe; or use crawl",
    )
    crawl: CrawlPart | None = Field(default=None, description="a web site to crawl")
    most_rejected: Real = Field(
        default=MOST_REJECTED,
        ge=0,
        le=1,
        description="maximum share of rejected pages and records; above it, the run stops",
    )


class QualityPart(Part):
    rules: Names = Field(
        default_factory=list,
        description="sets of rules that a document must pass: gopher_quality, gopher_repetition, c4, "
        "fineweb, no_pii, harm_lexicon",
    )
    mask: Names = Field(
        default_factory=list,
        description="personal data to replace with a placeholder: email, phone, key, card, address",
    )
    thresholds: dict[str, Real] = Field(
        default_factory=dict, max_length=100, description="thresholds that differ from the published ones, by rule"
    )
    classifiers: Names = Field(
        default_factory=list,
        description="classifiers that reject documents, by rules NAME.LABEL; each is a trained classifier "
        "(NAME or NAME@DIGEST), or a .yaml file, relative to the folder of this recipe, whose classifier "
        "`tutti run` trains first",
    )
    languages: Names = Field(
        default_factory=list, description="ISO 639 codes of the languages or macro-languages to include; none: all"
    )
    clean: Literal["none", "c4"] = Field(
        default="none", description="c4: remove from the training text the lines that C4 removes"
    )

    def scored(self) -> dict[str, object]:
        """The classifiers that decide, where there are any: a key without them stays what it was."""
        return {"classifiers": sorted(set(self.classifiers))} if self.classifiers else {}


class DecontaminationPart(Part):
    path: str = Field(
        min_length=1, max_length=4096, description="folder of evaluation texts; documents that contain them are removed"
    )
    text_field: str = Field(
        default="text", min_length=1, max_length=200, description="field with the text, in JSON lines and Parquet"
    )
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
    """The keys of dedup, flat and in a named stage."""

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


class DedupPart(DedupKeys):
    decontaminate: DecontaminationPart | None = Field(default=None, description="removal of evaluation texts")

    def parameters(self) -> dict[str, object]:
        """The parameters that determine which documents are kept, except for the compared datasets; keys without a
        value are absent.
        """
        found: dict[str, object] = {"near": self.near}
        if self.decontaminate is not None:
            found["decontaminate"] = {"words": self.decontaminate.words, "share": self.decontaminate.share}
        if self.lines is not None:
            found["lines"] = self.lines.model_dump()
        return found


class TokenizerPart(Part):
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
        description="a run or dataset (datasets/…) whose tokenizer is reused; empty: train a new one",
    )
    reserve: bool = Field(
        default=True,
        description="reserve the role tokens of `template` in a new tokenizer; false: the base is that of a "
        "recipe without a template, and `sft` adds the tokens (`convert`)",
    )

    def parameters(self) -> dict[str, object]:
        """The parameters that determine the tokens of a text."""
        return {"of": self.of} if self.of else self.model_dump(exclude={"of", "reserve"})


class DataPart(Part):
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

    def parameters(self) -> dict[str, object]:
        """The parameters that determine the sequences; without `packing` at its default, so that earlier keys stay
        valid.
        """
        return self.model_dump(exclude={"packing"} if self.packing == "stream" else None)


class MixturePart(Part):
    datasets: dict[str, Annotated[Real, Field(gt=0)]] = Field(
        min_length=1,
        max_length=16,
        description="earlier datasets to train on too, each a run or datasets/…, with a weight; they must "
        "have the tokenizer of tokenizer.of and the context data.context",
    )
    own: Real = Field(
        default=1.0, gt=0, description="weight of the dataset of this run, on which the model is validated"
    )
    by: Literal["weight", "epochs"] = Field(
        default="weight",
        description="meaning of the numbers. weight: whole numbers, the shares of the sequences; epochs: "
        "how often each dataset is read, relative to the others",
    )


Shard = Literal["optimizer", "parameters"]
SHARD = (
    "what each rank keeps of its share of the model only. optimizer: the state of the optimizer; parameters: the "
    "parameters too, which takes less memory and more exchange; does not affect the result"
)


class TrainPart(Part):
    later = frozenset({"shard"})

    steps: Positive = Field(description="number of optimizer steps")
    ranks: Positive = Field(
        default=1, description="number of training processes, at most microbatches; does not affect the result"
    )
    microbatches: int = Field(
        default=8,
        ge=1,
        le=MAX_MICROBATCHES,
        description="G: number of microbatches (leaves) per step, on any number of ranks",
    )
    rows: Positive | None = Field(
        default=None, description="sequences per microbatch; default: 2, or derived from batch"
    )
    batch: Positive | None = Field(
        default=None, description="sequences per step: microbatches x rows; give rows or batch"
    )
    checkpoint_every: Positive | None = Field(
        default=None, description="steps between two checkpoints; default: a tenth of the steps"
    )
    validate_every: Count = Field(default=0, description="steps between two validations; 0: only after the last step")
    audit_every: Count = Field(
        default=10,
        description="steps between two audits, in which ranks compare parameters and repeat leaves of each other; the "
        "last step has one, too; 0: never",
    )
    tied_embeddings: bool = Field(default=False, description="use one matrix for input and output embeddings")
    document_mask: bool = Field(default=True, description="prevent attention between tokens of different documents")
    seed: Seed = Field(default=0, description="seed of the initial parameters and of the order of sequences")
    threads: Positive = Field(default=1, description="threads of a rank; another number may give different bits")
    learning_rate: Real = Field(default=3e-3, gt=0, description="peak learning rate")
    min_learning_rate: Real = Field(default=0.0, ge=0, description="learning rate one step after the last")
    warmup: Count | None = Field(default=None, description="warmup steps; default: a twentieth of the steps")
    schedule: Literal["cosine", "wsd"] = Field(
        default="cosine", description="learning rate schedule after warmup; wsd: constant, then decay"
    )
    decay_fraction: Real = Field(
        default=0.2, ge=0, le=1, description="with wsd: share of the steps in which the rate decays"
    )
    weight_decay: Real = Field(default=0.1, ge=0, description="weight decay of matrices; norm gains do not decay")
    clip_norm: Real = Field(
        default=1.0, gt=0, description="maximum norm of the mean gradient; a larger one is scaled down"
    )
    shard: Shard = Field(default="optimizer", description=SHARD)
    shrink: bool = Field(default=False, description="continue with fewer ranks when nodes are lost")
    attempts: Positive = Field(
        default=5, description="number of attempts without a new checkpoint after which the job fails"
    )


Prompts = Annotated[list[Annotated[str, Field(max_length=16_384)]], Field(max_length=64)]


class SamplePart(Part):
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


class Shown(str):
    """A value as a problem has shown it already."""

    def __repr__(self) -> str:
        return str(self)


def parted(reference: str) -> tuple[str, str]:
    """The stage or resource that a reference names, and the part of its split, "" for all of it.

    `prompts.train` is the part train of the stage prompts, `conversations/ID.train` that of a resource.
    """
    if "/" in reference and not reference.startswith(PARTED):
        return reference, ""
    name, _, part = reference.partition(".")
    return name, part


@dataclass(frozen=True)
class Instance:
    """A stage that a recipe names: its kind, what fills each role (stages and resources, with the part that is read),
    the keys of its kind.
    """

    kind: str
    inputs: Mapping[str, tuple[str, ...]]
    section: Part

    @property
    def references(self) -> tuple[str, ...]:
        """The stages and resources that it reads."""
        return tuple(parted(ref)[0] for refs in self.inputs.values() for ref in refs)

    def recorded(self) -> dict[str, object]:
        """As in a recipe; a key without a value is absent, and a role with one reference has no list."""
        refs = {role: refs[0] if len(refs) == 1 else list(refs) for role, refs in self.inputs.items()}
        return {
            "kind": self.kind,
            "from": refs,
            **self.section.model_dump(exclude_none=True, exclude=self.section.unasked()),
        }

    def changed(self, values: Mapping[str, object]) -> "Instance":
        """The same with other values of some keys."""
        return replace(self, section=self.section.model_copy(update=values))

    def placed(self, digest: str) -> "Instance":
        """The same over a folder with this content, or over hosts that are found by their names."""
        return self.changed({"path": digest} if "path" in type(self.section).model_fields else {"connect": {}})


class Recipe(Part):
    name: str = Field(
        default="run", min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]+$", description="name of the run in lists"
    )
    size: Size = Field(default="small", description="size of the model")
    engine: Literal["local", "ray"] = Field(
        default="local",
        description="where pages are read and documents compared: on this machine, or on a Ray cluster; "
        "does not affect the result",
    )
    input: InputPart = InputPart()
    quality: QualityPart = QualityPart()
    dedup: DedupPart = DedupPart()
    template: Literal["chat@1"] | None = Field(
        default=None,
        description="chat template that turns conversations into tokens; a new tokenizer reserves its role tokens "
        "(unless tokenizer.reserve is false); default: none",
    )
    tokenizer: TokenizerPart = TokenizerPart()
    data: DataPart = DataPart()
    mixture: MixturePart | None = Field(default=None, description="other datasets to train on")
    train: TrainPart | None = None
    index: bool = Field(
        default=False, description="build an index with which `tutti trace --text` finds texts in the training data"
    )
    sample: SamplePart | None = Field(default=None, description="texts to generate with the last checkpoint")
    crowd: str = Field(
        default="",
        max_length=LONGEST,
        description="file (.yaml) that defines simulated annotators, or its text, for every named stage whose `crowd` "
        "has no `simulated`",
    )
    stages: dict[str, Instance] = Field(
        default_factory=dict,
        description="more stages by name, each with `kind` (default: its name), `from` (its inputs by "
        "role), `like` (a stage whose keys it copies) and the keys of its kind",
    )

    _section: Part | None = PrivateAttr(default=None)

    def with_section(self, section: Part) -> "Recipe":
        """This recipe as a named stage with these keys reads it."""
        view = self.model_copy()
        view._section = section
        return view

    def section(self, of: type[P]) -> P:
        """The keys of the named stage that reads this recipe. Raises TypeError where there are none of this type."""
        if not isinstance(self._section, of):
            raise TypeError(f"the keys are {self._section!r}, expected {of.__name__}")
        return self._section

    @property
    def reads_pages(self) -> bool:
        """True if the recipe makes a dataset of pages."""
        return bool(self.input.path) or self.input.crawl is not None

    def with_named(self, key: str, change: Callable[[str, Any], object]) -> "Recipe":
        """The recipe with `change(stage, value)` as the value of a key, for each named stage where that key is set."""
        changed = {
            name: each.changed({key: change(name, value)})
            for name, each in self.stages.items()
            if (value := getattr(each.section, key, None))
        }
        return self.model_copy(update={"stages": {**self.stages, **changed}}) if changed else self

    def canonical(self) -> str:
        """Canonical JSON (RFC 8785) with every default."""
        return canonical_json(self._recorded()).decode()

    def digest(self) -> str:
        return content_digest(self._recorded(), kind="recipe")

    def _recorded(self) -> dict[str, object]:
        """Every key with its value; what came later and is not asked for is absent, so that old digests stay."""
        unasked = {key for key, value in (("of", ""), ("reserve", True)) if getattr(self.tokenizer, key) == value}
        later: dict[str, Any] = {"tokenizer": unasked} if unasked else {}
        later |= {} if self.mixture else {"mixture": True}
        later |= {} if self.template else {"template": True}
        later |= {"data": {"packing"}} if self.data.packing == "stream" else {}
        later |= {"quality": {"clean"}} if self.quality.clean == "none" else {}
        if self.input.crawl is not None and not self.input.crawl.since:
            later["input"] = {"crawl": {"since"}}
        if self.input.most_rejected == MOST_REJECTED:
            later["input"] = {**later.get("input", {}), "most_rejected": True}
        later |= {"sample": {"each"}} if self.sample is not None else {}
        later["train"] = {"batch", *self.train.unasked()} if self.train else True
        # Stages that take the crowd have it among their keys.
        found = self.model_dump(exclude={"stages": True, "crowd": True, **later})
        if self.stages:
            found["stages"] = {name: each.recorded() for name, each in self.stages.items()}
        return found

    def over(self, digests: Mapping[str, str]) -> "Recipe":
        """This recipe as it is recorded: without paths and addresses, which are of one machine alone.

        A folder is named by the digest of its content, by place; see `graph.Node.place`.
        """
        place: dict[str, object] = {"path": digests.get("", "")}
        if self.input.crawl is not None:
            place = {"crawl": self.input.crawl.model_copy(update={"connect": {}})}
        dedup = self.dedup
        if dedup.decontaminate is not None:
            clean = dedup.decontaminate.model_copy(update={"path": digests["evaluation"]})
            dedup = dedup.model_copy(update={"decontaminate": clean})
        stages = {name: each.placed(digests[name]) if name in digests else each for name, each in self.stages.items()}
        read = self.input.model_copy(update=place)
        return self.model_copy(update={"input": read, "dedup": dedup, "stages": stages})

    def training(self, dataset: str, mixture: tuple[WeightedDataset, ...] = ()) -> Training:
        """The training on a dataset, or on the mixture that begins with it, without its placement. Raises SpecError."""
        shape, train = SIZES[self.size], self.train
        assert train is not None
        assert train.rows is not None
        assert train.warmup is not None
        assert train.checkpoint_every is not None
        return Training(
            model=ModelSpec(
                vocabulary=self.tokenizer.vocabulary,
                width=shape.width,
                layers=shape.layers,
                heads=shape.heads,
                kv_heads=shape.kv_heads,
                hidden=shape.hidden,
                context=self.data.context,
                tied=train.tied_embeddings,
                document_mask=train.document_mask,
            ),
            optimizer=OptimizerSpec(
                peak_rate=train.learning_rate,
                steps=train.steps,
                min_rate=train.min_learning_rate,
                warmup_steps=train.warmup,
                schedule=train.schedule,
                decay_fraction=train.decay_fraction,
                weight_decay=train.weight_decay,
                clip_norm=train.clip_norm,
                decay_end=train.steps + 1,
            ),
            step=StepSpec(leaves=train.microbatches, rows=train.rows, threads=train.threads, seed=train.seed),
            dataset=dataset,
            checkpoint_every=train.checkpoint_every,
            validate_every=train.validate_every,
            audit_every=train.audit_every,
            mixture=mixture,
        )


def keys() -> dict[str, Any]:
    """Every key of a recipe, dotted, with its type."""
    return recipetext.keys(Recipe)
