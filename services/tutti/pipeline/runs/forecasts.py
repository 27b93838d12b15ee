"""The needs of the stages of a recipe, forecast from earlier runs of this platform.

Promises: reads and changes nothing; a run whose rows or blobs are gone is no measure.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.checkpoints.errors import CheckpointError
from tutti.contracts.common.v1 import STATE_DONE
from tutti.contracts.pipeline.v1 import Forecast, Run, Stage
from tutti.pipeline.definitions import evidence
from tutti.pipeline.plans import graph, reading
from tutti.pipeline.plans.forecast import forecast, pages
from tutti.pipeline.plans.graph import Node
from tutti.pipeline.plans.owners import Owners
from tutti.pipeline.recipes.recipe import Recipe
from tutti.pipeline.recipes.values import Measure, Result, Source, Sources
from tutti.pipeline.runs import transitions
from tutti.pipeline.runs.tables import Tables
from tutti.records.errors import CorpusError
from tutti.report.durations import seconds

MOST = 20  # measures of a stage that are looked at, the newest


class Forecasts:
    def __init__(self, host: Host, tables: Tables, owners: Owners) -> None:
        self._host, self._tables, self._owners = host, tables, owners

    def of(self, recipe: Recipe, sources: Sources, results: Mapping[str, Result]) -> Iterator[Forecast]:
        """A forecast for each stage that has no result yet."""
        runs = self._host.units.run(self._runs)
        every = graph.nodes(recipe)
        for node in every:
            if node.name not in results:
                resources = {name: result.resource for name, result in results.items()}
                size = self._pages(every, node, sources, resources)
                yield forecast(node, size, list(islice(self._measures(node, runs), MOST)))

    def _runs(self, unit: Unit) -> list[Run]:
        """The newest first, without damaged ones: a forecast does not need them all."""
        return sorted(
            self._tables.runs.readable(unit).found, key=lambda run: run.started_at.ToNanoseconds(), reverse=True
        )

    def _pages(self, every: Sequence[Node], node: Node, sources: Sources, resources: Mapping[str, str]) -> int:
        """The number of pages behind a stage, from their folder or the work that fetched them; 0 if unknown."""
        back = list(graph.chain(every, node))
        folders = [pages(sources[each.place]) for each in back if each.folder is not None and each.place in sources]
        brought = [each for each in back if each.stage.brings_pages and each.name in resources]
        return next(
            (size for size in folders if size),
            next((self._owners.pages(each.stage, resources[each.name]) for each in brought), 0),
        )

    def _measures(self, node: Node, runs: list[Run]) -> Iterator[Measure]:
        """The measurements of the runs that did the stage, without reuse and without an interruption."""
        for run in runs:
            for each in run.stages:
                if each.name == node.name and each.state == STATE_DONE and not each.reused and not each.resumptions:
                    measure = self._measure(run, each)
                    if measure is not None:
                        yield measure

    def _measure(self, run: Run, done: Stage) -> Measure | None:
        try:
            every = graph.nodes(reading.read(run.spec.recipe))
            node = next(each for each in every if each.name == done.name)
            nbytes = evidence.written(self._host.blobs, node.stage, transitions.result_of(done))
        except (InvalidField, BlobMissing, CorpusError, CheckpointError):
            return None
        sources = {each.place: transitions.sized(Source("", "", ""), run, each.name) for each in every if each.folder}
        resources = {each.name: each.resource for each in run.stages}
        work = node.stage.amount(node.view, self._pages(every, node, sources, resources))
        took = seconds(done)
        return Measure(run.name, took, work, nbytes) if work and took > 0 else None
