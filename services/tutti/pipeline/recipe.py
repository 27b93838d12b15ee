"""The recipe: everything that a run needs to know, with all defaults filled in.

Promises: equal recipes have equal canonical JSON and so an equal digest. How its text is read is in `reading`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, PrivateAttr

from tutti.chassis.config import recipetext
from tutti.chassis.config.recipetext import Part, Real
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.training import Training, WeightedDataset
from tutti.pipeline.sizes import SIZES, Size
from tutti.records.canonical import canonical_json, content_digest

P = TypeVar("P", bound=Part)
Count = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[int, Field(ge=1, lt=2**31)]
PARTED = ("conversations/",)
"""How the names of resources begin that can be split into parts; no such name has a dot."""
MAX_MICROBATCHES = 4096  # every one is a leaf of every step's plan
Seed = Annotated[int, Field(ge=0, lt=2**53)]


Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=100)]
Urls = Annotated[list[Annotated[str, Field(min_length=1, max_length=2000)]], Field(max_length=1000)]


class CrawlPart(Part):
    seeds: Urls = Field(min_length=1, description="URLs to begin with")
    contact: str = Field(
        min_length=1, max_length=200, description="by which those who are visited reach you: a URL or a mail address"
    )
    within: Urls = Field(default_factory=list, description="beginnings of URLs that may be visited; none: seeds' hosts")
    without: Urls = Field(default_factory=list, description="beginnings of URLs that may not")
    depth: Count = Field(default=20, description="links away from a seed, at most")
    pages: Positive = Field(default=10_000, description="that are visited, at most")
    pages_of_host: Count = Field(default=0, description="of one host, at most; 0: as many as pages")
    alike: Positive = Field(default=1_000, description="of URLs that differ in digits or values of parameters, at most")
    delay_seconds: Real = Field(default=1.0, ge=0, le=3600, description="between two visits to a host, at least")
    connections: Positive = Field(default=1, description="to a host at once")
    page_bytes: int = Field(default=10 << 20, ge=1, lt=2**31, description="larger answers are given up")
    page_seconds: Real = Field(default=60.0, gt=0, le=3600, description="slower answers are given up")
    allow_private: bool = Field(default=False, description="visit addresses that are not of the public web")
    sitemaps: bool = Field(default=True, description="visit what the hosts of the seeds list in their sitemaps")
    connect: dict[str, str] = Field(
        default_factory=dict, max_length=100, description="address:port by host, where its name shall not be asked for"
    )
    edition: str = Field(default="", max_length=100, description="an earlier crawl is reused until this is changed")
    since: str = Field(
        default="",
        max_length=200,
        description="an earlier run, or its crawl (crawls/…): what it kept is asked for only if it has changed",
    )

    def parameters(self) -> dict[str, object]:
        """What decides which pages are found, and not how fast or from where; what is not asked for is absent."""
        later = {name for name in ("since", "allow_private") if not getattr(self, name)}
        return self.model_dump(exclude={"contact", "delay_seconds", "connections", "connect", *later})


MOST_REJECTED = 0.5


class InputPart(Part):
    path: str = Field(
        default="",
        max_length=4096,
        description="folder of pages, or one file; relative to the recipe's own folder; or crawl",
    )
    crawl: CrawlPart | None = Field(default=None, description="a part of the web to visit")
    limit: Count = Field(default=0, description="files in path order; 0: all")
    max_file_bytes: int = Field(
        default=50 << 20, ge=1, lt=2**40, description="larger pages, lines and records are rejected"
    )
    text_field: str = Field(
        default="text", min_length=1, max_length=200, description="of JSON lines and Parquet: where the text is"
    )
    most_rejected: Real = Field(
        default=MOST_REJECTED, ge=0, le=1, description="share of pages and records; with more of them the run stops"
    )


class QualityPart(Part):
    rules: Names = Field(
        default_factory=list,
        description="sets of rules that a document must pass: gopher_quality, gopher_repetition, c4, fineweb, no_pii, "
        "harm_lexicon",
    )
    mask: Names = Field(
        default_factory=list,
        description="personal data replaced by a word before a text is kept: email, phone, key, card, address",
    )
    thresholds: dict[str, Real] = Field(
        default_factory=dict, max_length=100, description="by rule, where it is not the published one"
    )
    classifiers: Names = Field(
        default_factory=list,
        description="whose labels reject, by rules NAME.LABEL: trained here (NAME, or NAME@DIGEST), or recipes "
        "(a file .yaml, relative to the recipe's own folder) by which `tutti run` trains them first",
    )
    languages: Names = Field(
        default_factory=list, description="ISO 639 codes of languages or macro-languages that stay; none: all"
    )
    clean: Literal["none", "c4"] = Field(
        default="none", description="c4: the lines that C4 removes are cut out of what is trained on"
    )

    def scored(self) -> dict[str, object]:
        """The classifiers that decide, where there are any: a key without them stays what it was."""
        return {"classifiers": sorted(set(self.classifiers))} if self.classifiers else {}


class DecontaminationPart(Part):
    path: str = Field(
        min_length=1, max_length=4096, description="folder of evaluation texts; what holds them is left out"
    )
    text_field: str = Field(
        default="text", min_length=1, max_length=200, description="of JSON lines and Parquet: where the text is"
    )
    words: int = Field(default=13, ge=1, le=1000, description="in a row that make an n-gram; 13 as for GPT-3")
    share: Real = Field(
        default=0.0, ge=0, lt=1, description="of an evaluation text's n-grams; a document that holds more is left out"
    )


class LinesPart(Part):
    unit: Literal["line", "paragraph"] = Field(default="line", description="what is looked at as one")
    most: Positive = Field(default=6, description="documents with a unit; what is in more is cut; 6 as for Llama 3")
    keep: Count = Field(default=0, description="of those, documents that it stays in; most and keep 1 as for CCNet")
    least_characters: Positive = Field(default=1, description="of a unit; a shorter one stays")
    left: Positive = Field(default=100, description="characters of a document that was cut; with fewer it is left out")


class DedupPart(Part):
    near: Real = Field(
        default=0.8, ge=0, le=1, description="similarity of near-duplicates, from 0.7 on; 0: equal texts alone"
    )
    against: Names = Field(
        default_factory=list,
        description="earlier datasets (datasets/…): what is like one of their documents is left out",
    )
    decontaminate: DecontaminationPart | None = Field(default=None, description="evaluation texts to keep out")
    lines: LinesPart | None = Field(default=None, description="repeated lines or paragraphs to cut out")

    def parameters(self) -> dict[str, object]:
        """What decides which documents stay, but for what they are compared with; what is not asked for is absent."""
        found: dict[str, object] = {"near": self.near}
        if self.decontaminate is not None:
            found["decontaminate"] = {"words": self.decontaminate.words, "share": self.decontaminate.share}
        if self.lines is not None:
            found["lines"] = self.lines.model_dump()
        return found


class TokenizerPart(Part):
    vocabulary: int = Field(default=4096, ge=257, lt=2**20, description="tokens: 256 bytes, merges, end of text")
    pattern: str = Field(default="", max_length=2000, description="how text is split before merging; empty: Llama 3's")
    of: str = Field(
        default="",
        max_length=200,
        description="a run or a dataset (datasets/…) whose tokenizer is used again; empty: one is trained",
    )

    def parameters(self) -> dict[str, object]:
        """What decides which tokens a text has."""
        return {"of": self.of} if self.of else self.model_dump(exclude={"of"})


class DataPart(Part):
    context: int = Field(default=256, ge=2, lt=2**20, description="tokens of a sequence")
    validation_fraction: Real = Field(default=0.05, gt=0, lt=1, description="of documents")
    seed: Seed = Field(default=0, description="which documents are held out, and in which order all are packed")
    shard_sequences: Positive = Field(default=65_536, description="sequences of a token shard, at most")
    packing: Literal["stream", "best_fit"] = Field(
        default="stream",
        description="of documents into sequences: cut from one stream, or whole documents, and what is left of longer "
        "ones, fitted into padded sequences",
    )

    def parameters(self) -> dict[str, object]:
        """What decides which sequences there are; a key without packing stays what it was before there was another."""
        return self.model_dump(exclude={"packing"} if self.packing == "stream" else None)


class MixturePart(Part):
    datasets: dict[str, Annotated[Real, Field(gt=0)]] = Field(
        min_length=1,
        max_length=16,
        description="earlier datasets that are trained on too, each a run or datasets/…, with how much of it; "
        "of the tokenizer of tokenizer.of and of data.context",
    )
    own: Real = Field(default=1.0, gt=0, description="how much of the dataset of this run, on which it is validated")
    by: Literal["weight", "epochs"] = Field(
        default="weight",
        description="what the numbers are: parts of the sequences that are read, as whole numbers; or how often each "
        "dataset is read while the others are read so often",
    )


class TrainPart(Part):
    steps: Positive = Field(description="optimizer steps")
    ranks: Positive = Field(default=1, description="at most one a microbatch; changes no bit of the result")
    microbatches: int = Field(
        default=8, ge=1, le=MAX_MICROBATCHES, description="G: leaves of a step, the same on any number of ranks"
    )
    rows: Positive | None = Field(default=None, description="sequences of a microbatch; 2, or what batch makes of it")
    batch: Positive | None = Field(default=None, description="sequences of a step: microbatches x rows")
    checkpoint_every: Positive | None = Field(default=None, description="a tenth of the steps unless it is given")
    validate_every: Count = Field(default=0, description="steps; 0: after the last step alone")
    audit_every: Count = Field(default=10, description="steps between two audits of parameters and a leaf; 0: none")
    tied_embeddings: bool = Field(default=False, description="one matrix for tokens in and out")
    document_mask: bool = Field(default=True, description="no token attends to another document")
    seed: Seed = Field(default=0, description="first parameters, and the order of sequences")
    threads: Positive = Field(default=1, description="of a rank; another number may give other bits")
    learning_rate: Real = Field(default=3e-3, gt=0, description="at its peak")
    min_learning_rate: Real = Field(default=0.0, ge=0, description="at the last step")
    warmup: Count | None = Field(default=None, description="steps; a twentieth unless it is given")
    schedule: Literal["cosine", "wsd"] = Field(default="cosine", description="the way from the peak to the last step")
    decay_fraction: Real = Field(default=0.2, ge=0, le=1, description="wsd: share of the steps in which the rate falls")
    weight_decay: Real = Field(default=0.1, ge=0, description="of matrices; gains of norms do not decay")
    clip_norm: Real = Field(default=1.0, gt=0, description="a longer mean gradient is scaled down to this norm")
    shrink: bool = Field(default=False, description="go on with fewer ranks when nodes are lost")
    attempts: Positive = Field(default=5, description="without a new checkpoint, until the job fails")


Prompts = Annotated[list[Annotated[str, Field(max_length=16_384)]], Field(max_length=64)]


class SamplePart(Part):
    prompts: Prompts = Field(
        default_factory=list,
        description="texts of fewer tokens than data.context, which the last checkpoint continues; an empty one "
        "begins a new text",
    )
    tokens: Positive = Field(default=64, description="that follow each prompt, at most")
    temperature: Real = Field(default=1.0, ge=0, description="0: the likeliest token each time")
    top_p: Real = Field(default=1.0, gt=0, le=1, description="the likeliest tokens that together reach it")
    seed: Seed = Field(default=0, description="the same one gives the same texts")
    each: Positive | None = Field(
        default=None, le=64, description="answers to each conversation of `from: {prompts: …}`; 1 unless given"
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
        return {"kind": self.kind, "from": refs, **self.section.model_dump(exclude_none=True)}


class Recipe(Part):
    name: str = Field(
        default="run", min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]+$", description="for people, in lists"
    )
    size: Size = Field(default="small", description="of the model")
    engine: Literal["local", "ray"] = Field(
        default="local",
        description="where pages are read and documents compared: here, or on a Ray cluster; changes no bit",
    )
    input: InputPart = InputPart()
    quality: QualityPart = QualityPart()
    dedup: DedupPart = DedupPart()
    template: Literal["chat@1"] | None = Field(
        default=None,
        description="how conversations become tokens: the tokenizer that is trained reserves its role tokens",
    )
    tokenizer: TokenizerPart = TokenizerPart()
    data: DataPart = DataPart()
    mixture: MixturePart | None = Field(default=None, description="what is trained on beside the dataset of this run")
    train: TrainPart | None = None
    index: bool = Field(default=False, description="make the index that finds verbatim spans of what is trained on")
    sample: SamplePart | None = Field(default=None, description="texts that the last checkpoint continues at the end")
    stages: dict[str, Instance] = Field(
        default_factory=dict,
        description="more stages by name, each with `kind` (its name unless it is given), `from` (what it reads, by "
        "role), `like` (a stage whose keys it takes over) and the keys of its kind",
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
        """Whether it makes a dataset of pages."""
        return bool(self.input.path) or self.input.crawl is not None

    def canonical(self) -> str:
        """Canonical JSON (RFC 8785) with every default."""
        return canonical_json(self._recorded()).decode()

    def digest(self) -> str:
        return content_digest(self._recorded(), kind="recipe")

    def _recorded(self) -> dict[str, object]:
        """Every key with its value; what came later and is not asked for is absent, so that old digests stay."""
        later: dict[str, Any] = {} if self.tokenizer.of else {"tokenizer": {"of"}}
        later |= {} if self.mixture else {"mixture": True}
        later |= {} if self.template else {"template": True}
        later |= {"data": {"packing"}} if self.data.packing == "stream" else {}
        later |= {"quality": {"clean"}} if self.quality.clean == "none" else {}
        if self.input.crawl is not None and not self.input.crawl.since:
            later["input"] = {"crawl": {"since"}}
        if self.input.most_rejected == MOST_REJECTED:
            later["input"] = {**later.get("input", {}), "most_rejected": True}
        later |= {"sample": {"each"}} if self.sample is not None else {}
        later["train"] = {"batch"} if self.train else True
        found = self.model_dump(exclude={"stages": True, **later})
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
        stages = {
            name: replace(each, section=each.section.model_copy(update={"path": digests[name]}))
            if name in digests
            else each
            for name, each in self.stages.items()
        }
        read = self.input.model_copy(update=place)
        return self.model_copy(update={"input": read, "dedup": dedup, "stages": stages})

    def training(self, dataset: str, mixture: tuple[WeightedDataset, ...] = ()) -> Training:
        """What is trained on a dataset, or on the mixture that begins with it, apart from where. Raises SpecError."""
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
