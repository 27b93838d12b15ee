"""The derivation of a result: how it came about, apart from what judgements said.

Pure. Promises: a retraction changes no derivation; another recipe, campaign, logic or input does.
"""

from collections.abc import Sequence
from dataclasses import replace

from tutti.pipeline.definitions.definition import StageContext, StageDef
from tutti.pipeline.plans.graph import Node, reuse_of
from tutti.pipeline.recipes.values import Result
from tutti.records.canonical import content_digest

LINES = 1_000_000
"""The number of lines of any input that judgements shaped: a retraction may change it."""


def derivation_of(stage: StageDef, asked: StageContext, resource: str = "") -> str:
    """Return the derivation of the result of a stage; "" where no judgement shaped it.

    Work whose result its owner may revise, such as a campaign, is named by its `resource`; "" before it has one.
    """
    if stage.revisable:
        return content_digest({"resource": resource}, kind="derivation") if resource else ""
    if not any(each.derivation for several in stage.decisive(asked.inputs).values() for each in several):
        return ""
    inputs = {role: tuple(map(_lasting, several)) for role, several in asked.inputs.items()}
    key = reuse_of(stage, replace(asked, inputs=inputs)).key
    return content_digest({"reuse_key": key}, kind="derivation")


def is_judged_alone(every: Sequence[Node], node: Node) -> bool:
    """Return whether the result of a stage is read, and by campaigns alone.

    Judgements of answers stay valid when earlier judgements, which shaped the policy that wrote the answers, are
    retracted. So these answers are kept, where all that changed since is what those judgements said.
    """
    readers = [other for other in every if node.name in other.reads]
    return bool(readers) and all(other.stage.revisable for other in readers)


def _lasting(result: Result) -> Result:
    if not result.derivation:
        return result
    count = LINES if result.count else 0
    return replace(result, content_digest=result.derivation, count=count, derivation="")
