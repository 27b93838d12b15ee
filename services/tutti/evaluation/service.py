"""The evaluation service: compares the answers of models by judgements, and releases checkpoints by rules.

Promises: a comparison follows from the answers, the crowd and the seed; what judged is recorded with it; a release is
signed, and becomes stale when its evidence changes.
"""

from pathlib import Path

from tutti.chassis.service import Host, Service
from tutti.chassis.work.work import served_work
from tutti.contracts.evaluation.v1 import ReleaseRevoked
from tutti.evaluation import comparison, release
from tutti.evaluation.release import Releases, asked


def build(host: Host) -> Service:
    comparisons = comparison.work(host)
    releases = Releases(host, asked(host))
    return Service(
        name="evaluation",
        resources=[comparisons.resource, releases.resource],
        tables=[releases.keys.table, releases.relied.table],
        serves=[
            served_work(comparisons, comparison.check),
            served_work(releases.work, release.check, releases),
        ],
        consumes=releases.consumes(),
        facts=[ReleaseRevoked],
        tasks=[comparisons.task(), releases.work.task()],
        loops=[releases.reconciler],
        export=lambda unit: (*comparisons.export(unit), *releases.work.export(unit)),
        migrations=Path(__file__).with_name("migrations"),
    )
