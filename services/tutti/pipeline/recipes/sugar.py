"""The short spelling of a recipe: top-level keys that ask for one stage of each kind.

At the door they become stages, and a recipe is recorded as it was written. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from tutti.chassis.config.recipetext import Part
from tutti.chassis.errors import InvalidField
from tutti.pipeline.recipes.instance import Instance, Keys
from tutti.pipeline.recipes.sections import (
    CleanedSection,
    CleanKeys,
    CommonKeys,
    CrawlPart,
    CrawlSection,
    DataPart,
    DedupKeys,
    FileKeys,
    FilterSection,
    IndexSection,
    IngestSection,
    MeasuredKeys,
    OverlapPart,
    SamplePart,
    TextKeys,
    TokenizationSection,
    TokenizerPart,
    TrainPart,
)

EVALUATION = "evaluation"
DECONTAMINATE = "dedup.decontaminate"


class InputPart(FileKeys):
    crawl: CrawlPart | None = Field(default=None, description="a web site to crawl")


class QualityPart(FilterSection, MeasuredKeys, CleanKeys):
    pass


class TextsPart(TextKeys):
    path: str = Field(
        min_length=1, max_length=4096, description="folder of evaluation texts; documents that contain them are removed"
    )


class DecontaminationPart(OverlapPart, TextsPart):
    pass


class DedupPart(DedupKeys):
    decontaminate: DecontaminationPart | None = Field(default=None, description="removal of evaluation texts")


class Written(CommonKeys):
    """The top-level keys of a recipe, as a user writes them."""

    input: InputPart = InputPart()
    quality: QualityPart = QualityPart()
    dedup: DedupPart = DedupPart()
    tokenizer: TokenizerPart = TokenizerPart()
    data: DataPart = DataPart()
    train: TrainPart | None = None
    index: bool = Field(
        default=False, description="build an index with which `tutti trace --text` finds texts in the training data"
    )
    sample: SamplePart | None = Field(default=None, description="texts to generate with the last checkpoint")
    stages: dict[str, Instance] = Field(
        default_factory=dict,
        description="more stages by name, each with `kind` (default: its name), `from` (its inputs by "
        "role), `like` (a stage whose keys it copies) and the keys of its kind",
    )

    @property
    def reads_pages(self) -> bool:
        """True if the recipe makes a dataset of pages."""
        return bool(self.input.path) or self.input.crawl is not None

    def at(self, key: str) -> Part | None:
        """Return the keys below a key; None if they are not given."""
        found: Any = self
        for name in key.split("."):
            found = getattr(found, name)
        return found if isinstance(found, Part) else None


STAGES: Mapping[str, Mapping[str, type[Part]]] = {
    "crawl": {"input.crawl": CrawlPart},
    "ingest": {"input": FileKeys, "quality": MeasuredKeys},
    "filter": {"quality": FilterSection},
    EVALUATION: {DECONTAMINATE: TextsPart},
    "dedup": {"dedup": DedupKeys, "quality": CleanKeys},
    "tokenization": {"data": DataPart, "tokenizer": TokenizerPart},
    "train": {"train": TrainPart},
    "index": {},
    "sample": {"sample": SamplePart},
}
"""The stages that top-level keys ask for, in their order: for each the keys that hold parts of its section."""
SECTIONS: Mapping[str, type[Part]] = {
    "crawl": CrawlSection,
    "ingest": IngestSection,
    "filter": FilterSection,
    EVALUATION: IngestSection,
    "dedup": CleanedSection,
    "tokenization": TokenizationSection,
    "train": TrainPart,
    "index": IndexSection,
    "sample": SamplePart,
}


def instances(written: Written) -> dict[str, Instance]:
    """Return the stages of top-level keys by name, without what fills their roles."""
    found = {}
    for name, holds in STAGES.items():
        parts = {key: part for key in holds if (part := written.at(key)) is not None}
        if len(parts) == len(holds) and (name != "index" or written.index):
            trees = {key: part.model_dump(exclude_unset=True) for key, part in parts.items()}
            values = {key: trees[at][key] for at, of in holds.items() for key in of.model_fields if key in trees[at]}
            section = SECTIONS[name].model_validate({**values, **_beside(name, written)})
            kind, place = ("ingest", EVALUATION) if name == EVALUATION else (name, "")
            asked = written.reads_pages or name in ("train", "index", "sample")
            found[name] = Instance(kind, {}, section, _keys(name), place, asked)
    return found


def _beside(name: str, written: Written) -> dict[str, object]:
    """The values of a section that are not below the keys of its stage."""
    clean = written.dedup.decontaminate
    if name == EVALUATION:
        return {"max_file_bytes": written.input.max_file_bytes}
    if name == "dedup" and clean is not None:
        return {"decontaminate": clean.model_dump(include=set(OverlapPart.model_fields))}
    return {}


def _keys(name: str) -> Keys:
    first, *others = STAGES[name] or [name]
    return Keys(first, {key: f"{place}.{key}" for place in others for key in STAGES[name][place].model_fields})


def recorded(common: CommonKeys, stages: Mapping[str, Instance]) -> dict[str, Any]:
    """Return the top-level keys with every value, but for later ones that have their default."""
    # Stages that take the crowd have it among their keys.
    found: dict[str, Any] = common.model_dump(
        include=set(CommonKeys.model_fields), exclude={"crowd", *common.unasked(CommonKeys)}
    )
    found |= {"index": "index" in stages, "sample": None, "input": {"crawl": None}}
    for name, instance in stages.items():
        for key, of in STAGES[name].items():
            values = instance.section.model_dump(include=set(of.model_fields), exclude=instance.section.unasked(of))
            above, _, below = key.partition(".")
            if below:
                found.setdefault(above, {})[below] = values
            else:
                found[above] = {**(found.get(above) or {}), **values}
    dedup = stages["dedup"].section
    assert isinstance(dedup, CleanedSection)
    overlap = dedup.decontaminate
    found["dedup"]["decontaminate"] = {**found["dedup"]["decontaminate"], **dict(overlap)} if overlap else None
    return found


def problems(written: Written, *, named: bool) -> Iterator[InvalidField]:
    """Return what is missing; a recipe that has only `named` stages needs neither pages nor a training."""
    needed = written.train or written.index or written.sample or not named
    if written.train is None and not named:
        yield InvalidField("train", seen="nothing", expected="a value; set train in the recipe, or give --set train=…")
    if not written.reads_pages and needed:
        yield InvalidField(
            "input.path",
            seen="nothing",
            expected="input.path (a folder of pages) or input.crawl (a part of the web), and one of them alone; "
            "set it in the recipe, or give --set input.path=…",
        )
    if written.input.crawl is not None and written.input.limit:
        expected = "0: of a crawl input.crawl.pages is the limit"
        yield InvalidField("input.limit", seen=written.input.limit, expected=expected)
