"""Tenancy of runs: everybody with the role sees a run, but not what stages made of the work of another tenant's people.

Promises: without the keys, digests and words of stages whose resources belong to a tenant, without the recipe, which
has their guidelines, and without the note; a result of such a stage is kept under a key of its tenant.
"""

from tutti.chassis.errors import NotFound
from tutti.chassis.identity.cause import current_cause
from tutti.chassis.identity.principal import DEFAULT_TENANT, Principal
from tutti.chassis.rpc.references import tenant_kinds
from tutti.chassis.store import origins
from tutti.chassis.store.unit import Unit
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.pipeline.definitions.definition import StageDef
from tutti.pipeline.plans.registry import definitions
from tutti.records.canonical import content_digest

WORDS = ("content_digest", "manifest_key", "reuse_key", "derivation", "reason", "summary")


def belongs(stage: StageDef) -> bool:
    """Return whether the results of a stage belong to tenants."""
    return stage.kind.plural in tenant_kinds()


def viewed(unit: Unit, run: Run, principal: Principal) -> Run:
    """Return a run, or a part of one in an event, as a principal sees it."""
    hidden = [stage.name for stage in run.stages if _is_private(stage)]
    if principal.is_machine or not hidden or principal.sees(tenant_of(unit, run.name)):
        return run
    seen = Run()
    seen.CopyFrom(run)
    seen.spec.ClearField("recipe")
    if seen.labels.note:
        seen.labels.ClearField("note")
    if any(seen.reason.startswith(f"{name}: ") for name in hidden):
        seen.ClearField("reason")
    for stage in seen.stages:
        for word in WORDS if stage.name in hidden else ():
            stage.ClearField(word)  # type: ignore[arg-type]
    return seen


def tenant_of(unit: Unit, run: str) -> str:
    """Return the tenant of the user who created a run."""
    who = origins.find(unit, run)
    return who.tenant if who else DEFAULT_TENANT


def own_tenant() -> str:
    """Return the tenant of the user who is the cause of what runs now."""
    who = current_cause().principal
    return who.tenant if who else DEFAULT_TENANT


def own_key(stage: StageDef, key: str) -> str:
    """Return the key under which the result of a stage is kept: of a kind that belongs to tenants, one of the tenant.

    The default tenant has the keys of versions that had no others.
    """
    if not key or not belongs(stage) or own_tenant() == DEFAULT_TENANT:
        return key
    return content_digest({"key": key, "tenant": own_tenant()}, kind="tenant")


def require_recipe(run: Run) -> Run:
    """Raise NotFound if the recipe of a run is not shown."""
    if not run.spec.recipe:
        raise NotFound(f"the recipe of {run.name}, which has guidelines of another tenant")
    return run


def _is_private(stage: Stage) -> bool:
    found = definitions().get(stage.kind or stage.name)
    return found is not None and belongs(found)
