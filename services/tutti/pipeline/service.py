"""The pipeline: carries a recipe out, stage by stage.

Promises: a run goes on without its client; whatever is stopped, it resumes without asking twice for anything; a stage
whose inputs, parameters and logic did not change is not done again.
"""

from collections.abc import Iterator
from pathlib import Path

from tutti.chassis.rpc import standard
from tutti.chassis.service import Host, Service
from tutti.chassis.store.canonical import CanonicalLine
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.reconciler import Reconciler
from tutti.contracts.common.v1 import State
from tutti.contracts.pipeline.v1.pipeline_pb2 import DESCRIPTOR
from tutti.corpus.tokens.dataset import TOKENIZERS
from tutti.pipeline.pages.pages import RunPages
from tutti.pipeline.plans.owners import Owners
from tutti.pipeline.rpc import PipelineApi
from tutti.pipeline.runs.driver import Driver
from tutti.pipeline.runs.handlers import consumed
from tutti.pipeline.runs.references import Earlier
from tutti.pipeline.runs.tables import Tables


def build(host: Host) -> Service:
    tables = Tables(host.metadata)
    owners = Owners(host)
    driver = Driver(host, tables, owners)
    reconciler = Reconciler("runs", host, open=driver.open, advance=driver.advance, tell=driver.tell)
    api = PipelineApi(host, tables, owners, Earlier(host, tables), driver, reconciler.wake)
    kept = standard.Stored(host.units, tables.runs)
    return Service(
        name="pipeline",
        reads=["annotation", "committer", "dedup", "evaluation", "ingest", "sampling", "tokenization", "trainer"],
        writes=[TOKENIZERS],  # one that is extended by role tokens
        resources=[tables.runs],
        tables=tables.rows,
        serves=[standard.served(DESCRIPTOR.services_by_name["PipelineService"], api, kept)],
        consumes=consumed(tables, reconciler.wake),
        loops=[reconciler],
        pages=RunPages(host, tables).site,
        export=lambda unit: canonical(unit, tables),
        migrations=Path(__file__).with_name("migrations"),
    )


def canonical(unit: Unit, tables: Tables) -> Iterator[CanonicalLine]:
    """Runs with what each stage made of what."""
    for run in tables.runs.select(unit):
        stages = [
            {
                "name": stage.name,
                "state": State.Name(stage.state),
                "content_digest": stage.content_digest,
                "reuse_key": stage.reuse_key,
                "resource": stage.resource,
            }
            for stage in run.stages
        ]
        yield CanonicalLine(
            run.name,
            {"recipe_digest": run.spec.recipe_digest, "state": State.Name(run.state), "stages": stages},
        )
