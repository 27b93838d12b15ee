"""What a stage needs before it runs: time, disk, memory, foretold from what was measured before.

Pure: measures in, forecasts out. Promises: a figure says what it rests on; what nobody measured is not made up. Memory
is what a training or a sample holds at least, and about what other stages held in a benchmark.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tutti.contracts.pipeline.v1 import Forecast
from tutti.model.chunks import Layout
from tutti.pipeline.recipe import Recipe
from tutti.pipeline.stages import Source, StageName

NUMBER_BYTES = 4  # parameters, gradients, moments and logits are float32
STATE_NUMBERS = 3  # of a parameter in a checkpoint: itself and two moments
FAR = 10.0  # times the work that was measured: starting processes is in no proportion to it
PAGE_BYTES = 28_700  # of a page of `make run`, on average
SNAPSHOTS = 2  # that a node keeps of what its ranks hold


@dataclass(frozen=True)
class Measure:
    """What a stage once took for `amount` of its work, see `amount`; `nbytes` that it wrote, None if unknown."""

    where: str
    seconds: float
    amount: float
    nbytes: int | None = None


_XEON = "`make run` on two cores of a Xeon (README)"
# Where nothing was measured yet: what `make run` took in the README, over 649 pages and 800 steps. What it wrote
# is told by `tutti recipes plan` after it, for the same pages.
ELSEWHERE = {
    StageName.INGEST: Measure(_XEON, 1.5, 649, 857_000),
    StageName.EVALUATION: Measure(_XEON, 1.5, 649, 857_000),
    StageName.FILTER: Measure(_XEON, 0.1, 649, 6_900),
    StageName.DEDUP: Measure(_XEON, 0.2, 649, 13_900),
    StageName.TOKENIZATION: Measure(_XEON, 2.2, 649, 2_552_000),
    StageName.TRAIN: Measure(_XEON, 252.9, 800 * 16 * 256 * 1_279_104),
    StageName.INDEX: Measure(_XEON, 1.2, 649, 7_225_000),
    StageName.SAMPLE: Measure(_XEON, 1.9, 4 * 48, 1_500),
}


@dataclass(frozen=True)
class Resident:
    """What a process of a stage had resident at once in a benchmark, and what grows with each page, in bytes."""

    where: str
    nbytes: int
    page: int = 0


# No run measures memory. What grows with documents is told in docs/near-duplicates.md and the README of tokenization.
RESIDENT = {
    StageName.CRAWL: Resident("benchmarks.crawl", 116_000_000),
    StageName.INGEST: Resident("each process of benchmarks.reading", 376_000_000),
    StageName.EVALUATION: Resident("each process of benchmarks.reading", 376_000_000),
    StageName.DEDUP: Resident("benchmarks.near_duplicates", 184_000_000, 340),
    StageName.TOKENIZATION: Resident("benchmarks.tokenization", 441_000_000, 460),
    StageName.INDEX: Resident("benchmarks.spans", 147_000_000),
}


def pages(source: Source) -> int:
    """How many pages an input has: its files, or, where these hold many each, as many as fill its bytes."""
    return max(source.files, source.nbytes // PAGE_BYTES)


def parameters(recipe: Recipe) -> int:
    """Of the model, each counted once."""
    return Layout(recipe.training("blake3:" + "0" * 64).model).elements


def amount(stage: StageName, recipe: Recipe, files: int) -> float:
    """How much work a stage has, in a unit of its own; 0 where that is not known.

    Pages for what goes over texts; for training tokens x parameters, to which its operations are in
    proportion (Kaplan et al. 2020, section 2.1: 6 N a token); for samples tokens.
    """
    if stage is StageName.TRAIN:
        assert recipe.train.rows is not None
        tokens = recipe.train.steps * recipe.train.microbatches * recipe.train.rows * recipe.data.context
        return float(tokens * parameters(recipe))
    if stage is StageName.SAMPLE:
        return float(len(recipe.sample.prompts) * recipe.sample.tokens) if recipe.sample else 0.0
    return 0.0 if stage is StageName.CRAWL else float(files)


def nearest(work: float, here: Sequence[Measure], elsewhere: Measure) -> Measure:
    """The measure of the most similar amount of work; one from elsewhere only if those from here are far off."""
    apart = [abs(math.log(work / each.amount)) for each in here]
    if not apart or min(apart) > abs(math.log(work / elsewhere.amount)) + math.log(FAR):
        return elsewhere
    return here[apart.index(min(apart))]


def forecast(stage: StageName, recipe: Recipe, files: int, measured: Sequence[Measure]) -> Forecast:
    """What a stage needs for `files` (0: not known), by what was measured here (the newest first), or elsewhere."""
    found = Forecast(stage=stage.value)
    resident = RESIDENT.get(stage)
    if resident:
        found.memory_bytes = resident.nbytes + resident.page * files
    memory = f"; memory as in {resident.where}" if resident else ""
    if stage is StageName.CRAWL:
        assert recipe.input.crawl is not None
        crawl = recipe.input.crawl
        found.basis = (
            f"not known before the crawl: at most {crawl.pages:,} visits, those to a host {crawl.delay_seconds:g} s "
            f"apart or what its robots.txt asks for{memory}"
        )
        return found
    if stage is StageName.TRAIN:
        found.disk_bytes, found.memory_bytes = checkpoint_bytes(recipe), training_bytes(recipe)
    if stage is StageName.SAMPLE:
        found.memory_bytes = NUMBER_BYTES * parameters(recipe)
    work = amount(stage, recipe, files)
    if not work:
        found.basis = f"not known before the pages are crawled{_at_most(stage, recipe, measured)}{memory}"
        return found
    elsewhere = ELSEWHERE[stage]
    base = nearest(work, measured, elsewhere)
    share = work / base.amount
    found.seconds = base.seconds * share
    written = next((each for each in measured if each.nbytes is not None), elsewhere)
    if written.nbytes is not None and not found.HasField("disk_bytes"):
        found.disk_bytes = round(written.nbytes * work / written.amount)
    found.basis = f"by {base.where}, work x {share:.3g}"
    if share < 1 / FAR:
        found.basis += "; starting comes on top"
    elif share > FAR:
        found.basis += "; at most, as starting is in it as often"
    found.basis += memory
    return found


def _at_most(stage: StageName, recipe: Recipe, measured: Sequence[Measure]) -> str:
    """In words, what a stage behind a crawl needs if that one brings as many pages as it may."""
    if recipe.input.crawl is None:
        return ""
    pages = recipe.input.crawl.pages
    most = forecast(stage, recipe, pages, measured)
    return f"; for all {pages:,} that it may bring {most.seconds:,.1f} s and {most.disk_bytes / 1e3:,.0f} kB of disk"


def checkpoint_bytes(recipe: Recipe) -> int:
    """Of all checkpoints that a training writes: none goes by itself."""
    train = recipe.train
    assert train.checkpoint_every is not None
    count = -(-train.steps // train.checkpoint_every)
    return count * STATE_NUMBERS * NUMBER_BYTES * parameters(recipe)


def training_bytes(recipe: Recipe) -> int:
    """At least: each rank's parameters, gradient, and logits of a microbatch with theirs; the state; its snapshots.

    Activations, and torch itself, come on top.
    """
    train, model = recipe.train, parameters(recipe)
    assert train.rows is not None
    logits = train.rows * recipe.data.context * recipe.tokenizer.vocabulary
    return NUMBER_BYTES * (train.ranks * 2 * (model + logits) + (1 + SNAPSHOTS) * STATE_NUMBERS * model)
