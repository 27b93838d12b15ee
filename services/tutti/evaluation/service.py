"""The evaluation service: compares the answers of models by judgements, and releases checkpoints by rules.

Promises: a comparison follows from the answers, the crowd and the seed; what judged is recorded with it; a release is
signed; both become stale when their evidence changes.
"""

from pathlib import Path

from tutti.chassis.service import Host, Service
from tutti.chassis.work.work import served_work
from tutti.contracts.evaluation.v1 import ReleaseRevoked
from tutti.evaluation import comparison, release
from tutti.evaluation.differing import DifferingPairs
from tutti.evaluation.release import Releases
from tutti.evaluation.reliance import Relied, asked, consumes
from tutti.evaluation.standing import Standings


def build(host: Host) -> Service:
    find, relied = asked(host), Relied(host.metadata)
    comparisons = comparison.work(host, lambda name: standings.reconciler.wake(name))
    standings = Standings(host, find, relied, comparisons.resource)
    releases = Releases(host, find, relied)
    reconcilers = {"releases": releases.reconciler, "comparisons": standings.reconciler}
    return Service(
        name="evaluation",
        reads=["annotation", "committer", "ingest", "sampling", "tokenization", "trainer"],
        resources=[comparisons.resource, releases.resource],
        tables=[releases.keys.table, releases.tries.table, relied.table],
        serves=[
            served_work(comparisons, comparison.check, DifferingPairs(host, comparisons)),
            served_work(releases.work, release.check, releases),
        ],
        consumes=consumes(relied, reconcilers),
        facts=[ReleaseRevoked],
        tasks=[comparisons.task(), releases.work.task()],
        loops=[*reconcilers.values()],
        export=lambda unit: (*comparisons.export(unit), *releases.work.export(unit)),
        migrations=Path(__file__).with_name("migrations"),
    )
