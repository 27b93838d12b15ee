"""The evaluation service: compares the answers of models by judgements.

Promises: a comparison follows from the answers, the crowd and the seed; what judged is recorded with it.
"""

from pathlib import Path

from tutti.chassis.service import Host, Service
from tutti.chassis.work import served
from tutti.evaluation import comparison


def build(host: Host) -> Service:
    comparisons = comparison.work(host)
    return Service(
        name="evaluation",
        resources=[comparisons.resource],
        serves=[served(comparisons, comparison.check)],
        tasks=[comparisons.task()],
        export=comparisons.export,
        migrations=Path(__file__).with_name("migrations"),
    )
