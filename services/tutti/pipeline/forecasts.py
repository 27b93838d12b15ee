"""What the stages of a recipe need, by what earlier runs of this platform measured.

Promises: reads and changes nothing; a run whose rows or blobs are gone is no measure.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host
from tutti.chassis.unit import Unit
from tutti.checkpoints.errors import CheckpointError
from tutti.contracts.common.v1 import STATE_DONE
from tutti.contracts.pipeline.v1 import Forecast, Run, Stage
from tutti.corpus.errors import CorpusError
from tutti.pipeline import evidence, reading, saga
from tutti.pipeline.forecast import Measure, amount, forecast, pages
from tutti.pipeline.owners import Owners
from tutti.pipeline.recipe import Recipe
from tutti.pipeline.stages import Result, Source, StageName, stages_of
from tutti.pipeline.tables import Tables

MOST = 20  # measures of a stage that are looked at, the newest


class Forecasts:
    def __init__(self, host: Host, tables: Tables, owners: Owners) -> None:
        self._host, self._tables, self._owners = host, tables, owners

    def of(self, recipe: Recipe, source: Source, results: Mapping[StageName, Result]) -> Iterator[Forecast]:
        """A forecast for each stage that has no result yet."""
        runs = self._host.units.run(self._runs)
        for stage in stages_of(recipe):
            if stage not in results:
                resources = {name: result.resource for name, result in results.items()}
                folder = source.evaluation if stage is StageName.EVALUATION else source
                size = self._pages(stage, folder, resources)
                yield forecast(stage, recipe, size, list(islice(self._measures(stage, runs), MOST)))

    def _runs(self, unit: Unit) -> list[Run]:
        """The newest first."""
        return sorted(self._tables.runs.select(unit), key=lambda run: run.started_at.ToNanoseconds(), reverse=True)

    def _pages(self, stage: StageName, folder: Source | None, resources: Mapping[StageName, str]) -> int:
        """How many pages the input of a stage has, as its folder tells, or the crawl's visits; 0 if it is not known."""
        if folder is None or stage is StageName.EVALUATION:
            return pages(folder) if folder else 0
        known = (each for each in (StageName.INGEST, StageName.CRAWL) if each in resources)
        return pages(folder) or next((self._owners.files(each, resources[each]) for each in known), 0)

    def _measures(self, stage: StageName, runs: list[Run]) -> Iterator[Measure]:
        """Of the runs in which the stage was done, and neither reused nor taken up again after a while."""
        for run in runs:
            for each in run.stages:
                if each.name == stage.value and each.state == STATE_DONE and not each.reused and not each.resumptions:
                    measure = self._measure(stage, run, each)
                    if measure is not None:
                        yield measure

    def _measure(self, stage: StageName, run: Run, done: Stage) -> Measure | None:
        try:
            recipe = reading.read(run.spec.recipe)
            nbytes = evidence.written(self._host.blobs, stage, saga.result_of(done))
        except (InvalidField, BlobMissing, CorpusError, CheckpointError):
            return None
        seconds = (done.ended_at.ToNanoseconds() - done.started_at.ToNanoseconds()) / 1e9
        read = StageName.EVALUATION if stage is StageName.EVALUATION else StageName.INGEST
        resources = {StageName(each.name): each.resource for each in run.stages}
        work = amount(stage, recipe, self._pages(stage, saga.sized(Source("", "", ""), run, read), resources))
        return Measure(run.name, seconds, work, nbytes) if work and seconds > 0 else None
