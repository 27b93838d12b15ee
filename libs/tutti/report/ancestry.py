"""The ancestry of what a run made: each stage with the stages and resources that it was made from. Pure."""

from tutti.client.plain import Plain
from tutti.contracts.pipeline.v1 import Run


def ancestry(run: Run) -> list[Plain]:
    """Return a row for each stage that has begun, the last one first, so that a row is before those it was made from.

    An input that no stage of the run made has an empty `stage`.
    """
    stages = [stage for stage in run.stages if stage.resource][::-1]
    makers = {stage.resource: stage.name for stage in stages}  # of equal stages the first one, which the others reuse
    return [
        {
            "stage": stage.name,
            "kind": stage.kind or stage.name,
            "resource": stage.resource,
            "content_digest": stage.content_digest,
            "from": [
                {
                    "role": each.role,
                    "stage": makers.get(each.resource, ""),
                    "resource": each.resource,
                    "part": each.part,
                }
                for each in stage.inputs
            ],
        }
        for stage in stages
    ]
