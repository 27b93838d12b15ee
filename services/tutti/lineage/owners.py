"""Owners: what is asked of them, page by page."""

from collections.abc import Collection

from tutti.chassis.rpc.kinds import kind_of
from tutti.chassis.service import Host
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.pipeline.v1 import Run
from tutti.contracts.pipeline.v1.stubs import PipelineServiceStub
from tutti.lineage.graph import EVALUATION


def run_of(host: Host, name: str) -> Run:
    """A run. Raises NotFound."""
    found: Run = PipelineServiceStub(host.channel("pipeline")).GetRun(GetRequest(name=name))
    return found


def ingests_of_runs(host: Host) -> list[str]:
    """The ingests that runs name, those of the run that was started last first."""
    stages = (stage for run in newest_runs(host) for stage in run.stages)
    return [stage.resource for stage in stages if stage.resource.startswith("ingests/")]


def evaluated(host: Host, ingests: Collection[str]) -> bool:
    """True if a run takes its evaluation texts from one of these ingests."""
    return any(
        stage.name == EVALUATION and stage.resource in ingests for run in newest_runs(host) for stage in run.stages
    )


def newest_runs(host: Host) -> list[Run]:
    """All runs, the one that was started last first."""
    runs: list[Run] = [run for page in kind_of(Run).pages(host.channel("pipeline")) for run in page]
    return sorted(runs, key=lambda run: run.started_at.ToNanoseconds(), reverse=True)
