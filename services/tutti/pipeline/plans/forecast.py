"""The needs of a stage before it runs: time, disk and memory, forecast from earlier measurements.

Pure: measures in, forecasts out. Promises: a figure says what it rests on; what nobody measured is not made up.
"""

import math
from collections.abc import Sequence

from tutti.contracts.pipeline.v1 import Forecast
from tutti.pipeline.plans.graph import Node
from tutti.pipeline.recipes.sections import CrawlSection
from tutti.pipeline.recipes.values import Measure, Source

FAR = 10.0  # times the work that was measured: starting processes is in no proportion to it
PAGE_BYTES = 28_700  # of a page of `make run`, on average


def pages(source: Source) -> int:
    """The number of pages of an input: its files, or, if these hold many each, an estimate from its bytes."""
    return max(source.files, source.nbytes // PAGE_BYTES)


def nearest(work: float, here: Sequence[Measure], elsewhere: Measure | None) -> Measure:
    """The measure of the most similar amount of work; one from elsewhere only if those from here are far off."""
    apart = [abs(math.log(work / each.amount)) for each in here]
    if elsewhere and (not apart or min(apart) > abs(math.log(work / elsewhere.amount)) + math.log(FAR)):
        return elsewhere
    return here[apart.index(min(apart))]


def forecast(node: Node, files: int, measured: Sequence[Measure]) -> Forecast:
    """The forecast for `files` (0: unknown), from measurements of this platform (newest first), or of another
    machine.
    """
    stage, view = node.stage, node.view
    found = expected(node)
    resident = stage.resident
    if resident:
        found.memory_bytes = resident.nbytes + resident.page * files
    memory = f"; memory as in {resident.where}" if resident else ""
    if words := stage.unforeseeable(view):
        found.basis = f"{words}{memory}"
        return found
    if (disk := stage.disk(view)) is not None:
        found.disk_bytes = disk
    work, elsewhere = stage.amount(view, files), stage.measured
    if not work:
        missing = "the pages are crawled" if view.nearest(CrawlSection) else "its inputs are made"
        found.basis = f"not known before {missing}{_at_most(node, measured)}{memory}"
        return found
    if elsewhere is None and not measured:
        found.basis = f"not measured yet{memory}"
        return found
    base = nearest(work, measured, elsewhere)
    share = work / base.amount
    found.seconds = base.seconds * share
    written = next((each for each in measured if each.nbytes is not None), elsewhere or base)
    if written.nbytes is not None and not found.HasField("disk_bytes"):
        found.disk_bytes = round(written.nbytes * work / written.amount)
    found.basis = f"by {base.where}, work x {share:.3g}"
    if share < 1 / FAR:
        found.basis += "; starting comes on top"
    elif share > FAR:
        found.basis += "; at most, as starting is in it as often"
    found.basis += memory
    return found


def expected(node: Node) -> Forecast:
    """The forecast as far as it follows from the recipe alone."""
    stage, view = node.stage, node.view
    found = Forecast(stage=node.name)
    for name, value in (
        ("memory_bytes", stage.memory(view)),
        ("rank_memory_bytes", stage.rank_memory(view)),
        ("parameters", stage.trained_parameters(view)),
        ("step_tokens", stage.step_tokens(view)),
    ):
        if value is not None:
            setattr(found, name, value)
    return found


def _at_most(node: Node, measured: Sequence[Measure]) -> str:
    """In words, what a stage behind a crawl needs if that one brings as many pages as it may."""
    crawl = node.view.nearest(CrawlSection)
    if crawl is None:
        return ""
    pages = crawl.pages
    most = forecast(node, pages, measured)
    return f"; for all {pages:,} that it may bring {most.seconds:,.1f} s and {most.disk_bytes / 1e3:,.0f} kB of disk"
