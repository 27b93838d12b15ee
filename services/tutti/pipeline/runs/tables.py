"""Tables of the pipeline: runs, the locations of their pages, results that can be reused, cancellations to deliver.

Promises: a folder's path stays here and reaches no event.
"""

from collections.abc import Sequence

from sqlalchemy import BigInteger, Column, MetaData, String, Table, Text, delete, insert, or_, select, update

from tutti.chassis.errors import NotFound
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store.resources import Listed, Resource
from tutti.chassis.store.tables import declare, micros
from tutti.chassis.store.unit import Unit
from tutti.client.titles import title_of
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.pipeline.v1 import Run, UpdateRunRequest
from tutti.pipeline.recipes.values import Result, Source, Sources
from tutti.pipeline.runs import labels, progress, tenancy, transitions


class Runs(Resource[Run]):
    """The runs; answers, lists and watches have the newest training of each, as it is kept with the run."""

    def get_for(self, unit: Unit, name: str, principal: Principal) -> Run:
        return progress.kept(super().get_for(unit, name, principal))

    def page(self, unit: Unit, request: ListRequest, principal: Principal) -> Listed[Run]:
        page = super().page(unit, request, principal)
        for run in page.found:
            progress.kept(run)
        return page


class Tables:
    def __init__(self, metadata: MetaData) -> None:
        self.runs = Runs(
            metadata,
            "runs",
            Run,
            {
                "state": lambda run: int(run.state),
                "recipe_digest": lambda run: run.spec.recipe_digest,
                "title": title_of,
                "tags": lambda run: tuple(run.labels.tags),
                "archived": lambda run: run.labels.HasField("archived_at"),
            },
            event=transitions.event,
            viewed=tenancy.viewed,
        )
        self.sources = declare(
            "sources",
            metadata,
            Column("run", String(400), primary_key=True),
            Column("path", Text, nullable=False),
            Column("input_digest", String(100), nullable=False),
            Column("logic_version", String(100), nullable=False),
        )
        self.results = declare(
            "results",
            metadata,
            Column("reuse_key", String(100), primary_key=True),
            Column("resource", String(400), nullable=False),
            Column("manifest_key", Text, nullable=False),
            Column("content_digest", String(100), nullable=False),
        )
        self.cancels = declare(
            "cancels",
            metadata,
            Column("run", String(400), primary_key=True),
            Column("asked_at", BigInteger, nullable=False),
        )

    @property
    def rows(self) -> tuple[Table, ...]:
        return (self.sources, self.results, self.cancels)

    def open(self, unit: Unit) -> list[str]:
        """Runs that have not ended, and ended ones whose owner has not been told."""
        going = [run.name for run in self.open_runs(unit)]
        return going + [str(row.run) for row in unit.tx.execute(select(self.cancels.c.run)).all()]

    def open_runs(self, unit: Unit) -> list[Run]:
        return self.runs.select(unit, state=[int(state) for state in transitions.OPEN])

    def label(self, unit: Unit, request: UpdateRunRequest, who: Principal) -> Run:
        """The run with the labels that a checked request asks for. Raises NotFound, Refused, InvalidField."""
        run = self.runs.lock(unit, request.name)
        if not self.runs.is_whole_for(unit, run.name, who):
            raise NotFound(f"the note of {run.name}, a run over judgements of another tenant,")
        after = labels.labelled(run, request, unit.now)
        made = after if request.validate_only else self.runs.put(unit, after)
        return progress.kept(self.runs.view(unit, made, who))

    def sources_of(self, unit: Unit, run: str) -> dict[str, Source]:
        """The folders of a run by place: a row is named by the run alone, or RUN/PLACE."""
        table = self.sources
        mine = or_(table.c.run == run, table.c.run.startswith(f"{run}/", autoescape=True))
        rows = unit.tx.execute(select(table).where(mine)).all()
        return {
            row.run.removeprefix(run).removeprefix("/"): Source(row.path, row.input_digest, row.logic_version)
            for row in rows
        }

    def paths_of(self, unit: Unit, runs: Sequence[str]) -> dict[str, str]:
        """The path of the folder of each run that reads one, by run."""
        rows = unit.tx.execute(select(self.sources).where(self.sources.c.run.in_(runs))).all()
        return {row.run: row.path for row in rows}

    def keep_sources(self, unit: Unit, run: str, sources: Sources) -> None:
        for place, source in sources.items():
            values = {"path": source.path, "input_digest": source.input_digest, "logic_version": source.logic_version}
            unit.tx.execute(insert(self.sources).values(run=f"{run}/{place}" if place else run, **values))

    def move_sources(self, unit: Unit, run: str, sources: Sources) -> None:
        """The pages of a run are there from now on."""
        if "" in sources:
            unit.tx.execute(update(self.sources).where(self.sources.c.run == run).values(path=sources[""].path))

    def result(self, unit: Unit, reuse_key: str) -> Result | None:
        row = unit.tx.execute(select(self.results).where(self.results.c.reuse_key == reuse_key)).first()
        return Result(row.resource, row.manifest_key, row.content_digest) if row else None

    def keep_result(self, unit: Unit, reuse_key: str, result: Result) -> None:
        """The newest result of a key replaces the one before, whose blobs may be gone."""
        values = {
            "resource": result.resource,
            "manifest_key": result.manifest_key,
            "content_digest": result.content_digest,
        }
        table = self.results
        if unit.tx.execute(update(table).where(table.c.reuse_key == reuse_key).values(values)).rowcount == 0:
            unit.tx.execute(insert(table).values(reuse_key=reuse_key, **values))

    def cancels_run(self, unit: Unit, run: str) -> bool:
        return unit.tx.execute(select(self.cancels).where(self.cancels.c.run == run)).first() is not None

    def ask_cancel(self, unit: Unit, run: str) -> None:
        unit.tx.execute(insert(self.cancels).values(run=run, asked_at=micros(unit.now)))

    def cancelled(self, unit: Unit, run: str) -> None:
        unit.tx.execute(delete(self.cancels).where(self.cancels.c.run == run))

    def run_of_request(self, unit: Unit, request_id: str) -> str:
        """The name of the run that this request recorded, or ""."""
        table = self.runs.table
        if not request_id:
            return ""
        row = unit.tx.execute(select(table.c.name).where(table.c.request_id == request_id)).first()
        return str(row.name) if row else ""
