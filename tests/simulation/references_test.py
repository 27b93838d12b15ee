"""Every method with every name and key that its request may have, for a caller of another tenant or another node.

Generated from the protos: a field that names something declares what, and a method is called for those alone for whom
it exists.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from google.protobuf.message import Message
from tools.pages import builds

from tutti.annotation.tables import Tables
from tutti.chassis.errors import NotFound, PermissionDenied, Problem
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.cause import Cause, caused_by
from tutti.chassis.identity.principal import Method as How
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.kinds import every_kind
from tutti.chassis.rpc.methods import Method, methods_of
from tutti.chassis.rpc.references import BLOBS, RESOURCES, TEXT, rule_of, tenant_kinds
from tutti.contracts.annotation.v1 import (
    AcceptedDemonstrations,
    Campaign,
    Demonstrations,
    DemonstrationsSpec,
    Preferences,
    PreferencesSpec,
)
from tutti.contracts.chat.v1 import Answer
from tutti.contracts.options.v1 import Refers
from tutti.simulation import Simulation

CAMPAIGN, KEY, NODE = "campaigns/a", "annotation/manifests/a.json", "nodes/a"
NAMES = {
    "campaigns": CAMPAIGN,
    "preferences": "preferences/a",
    "demonstrations": "demonstrations/a",
    "answers": "answers/a",
}
UNKNOWN = {kind: f"{kind}/none" for kind in NAMES}
OWN = Principal("users/ada", frozenset({Role.ENGINEER}), "tenants/default", How.TOKEN)
OTHER = replace(OWN, user="users/eve", tenant="tenants/other")
CALL = Call(Role.ENGINEER, "", "test", 10.0)
CALLED = "the method was called"


@dataclass(frozen=True)
class Field:
    """A field of a request that names something."""

    service: str
    method: Method
    path: str
    rule: Refers

    def __str__(self) -> str:
        return f"{self.method.path}: {self.path}"

    def request(self, value: str) -> Message:
        """A request with this value and no other."""
        made = self.method.request()
        *above, last = self.path.split(".")
        within: Any = made
        for name in above:
            inner = getattr(within, name)
            within = inner.add() if within.DESCRIPTOR.fields_by_name[name].is_repeated else inner
        if within.DESCRIPTOR.fields_by_name[last].is_repeated:
            getattr(within, last).append(value)
        else:
            setattr(within, last, value)
        return made


@pytest.fixture(scope="module")
def world() -> Iterator[Simulation]:
    with Simulation(0, builds=builds(), rates={}) as world:
        parts = world.lives["annotation"][0].parts
        tables = parts.service.holds.__self__  # type: ignore[union-attr]
        assert isinstance(tables, Tables)
        accepted = [AcceptedDemonstrations(campaign=CAMPAIGN)]
        planted = {
            "campaigns": Campaign(name=CAMPAIGN, tenant=OWN.tenant),
            "preferences": Preferences(name=NAMES["preferences"], spec=PreferencesSpec(campaign=CAMPAIGN)),
            "demonstrations": Demonstrations(name=NAMES["demonstrations"], spec=DemonstrationsSpec(accepted=accepted)),
            "answers": Answer(name=NAMES["answers"], tenant=OWN.tenant, user=OWN.user),
        }
        for owner in ("annotation", "chat"):
            made = world.lives[owner][0].parts
            for each in made.service.resources:
                if each.kind in planted:
                    made.host.units.run(lambda unit: each.create(unit, planted[each.kind]))  # noqa: B023
        parts.host.units.run(lambda unit: tables.hold(unit, KEY, [CAMPAIGN]))
        yield world


def within(descriptor: Any, path: str = "") -> Iterator[tuple[str, Refers]]:
    for field in descriptor.fields:
        rule, where = rule_of(field), f"{path}{field.name}"
        if rule is not None:
            yield where, rule
        elif field.message_type is not None and not field.message_type.full_name.startswith("google."):
            yield from within(field.message_type, f"{where}.")


def every(world: Simulation) -> list[Field]:
    """The fields of the requests of every service."""
    return [
        Field(name, method, path, rule)
        for name, lives in sorted(world.lives.items())
        for served in lives[0].parts.service.serves
        for method in methods_of(served.descriptor)
        for path, rule in within(method.request.DESCRIPTOR)
    ]


def outcome(world: Simulation, field: Field, value: str, who: Principal) -> str:
    """The name of the error with which a call is refused before its method runs; CALLED otherwise."""
    served = next(
        each
        for each in world.lives[field.service][0].parts.service.serves
        if each.descriptor.full_name == field.method.service
    )
    references: Any = served.api._references  # type: ignore[attr-defined]
    with caused_by(Cause(principal=who)):
        try:
            references.require(field.request(value), replace(CALL, user=who))
        except Problem as problem:
            return type(problem).__name__
    return CALLED


def test_every_service_looks_up_what_its_requests_name(world: Simulation) -> None:
    assert world.lives.keys() >= {kind.owner for kind in every_kind()}
    for lives in world.lives.values():
        for served in lives[0].parts.service.serves:
            for method in methods_of(served.descriptor):
                wrapped = getattr(served.api, method.name)
                assert wrapped.__qualname__.startswith("Guarded."), method.path


def test_what_another_tenant_names_does_not_exist(world: Simulation) -> None:
    tried = 0
    for field in every(world):
        if field.rule.creates:
            continue
        values = {BLOBS: [KEY], RESOURCES: list(NAMES.values())}.get(field.rule.to) or [NAMES.get(field.rule.to, "")]
        for value in filter(None, values):
            assert outcome(world, field, value, OTHER) == NotFound.__name__, (str(field), value)
            assert outcome(world, field, value, OWN) == CALLED, (str(field), value)
            tried += 1
    assert tried > 150


def test_what_nobody_has_does_not_exist_either(world: Simulation) -> None:
    for field in every(world):
        if field.rule.creates:
            continue
        values = {BLOBS: ["annotation/none"], RESOURCES: list(UNKNOWN.values())}.get(field.rule.to)
        for value in filter(None, values or [UNKNOWN.get(field.rule.to, "")]):
            assert outcome(world, field, value, OWN) == NotFound.__name__, (str(field), value)


def test_the_agent_of_another_node_does_not_act_for_one(world: Simulation) -> None:
    acting = [field for field in every(world) if field.rule.acts]
    assert len(acting) > 8
    for field in acting:
        assert outcome(world, field, NODE, Principal.of_node("nodes/b")) == PermissionDenied.__name__, str(field)
        assert outcome(world, field, NODE, Principal.of_node(NODE)) == CALLED, str(field)


def test_every_field_that_can_name_something_declares_what(world: Simulation) -> None:
    """Such a field has the name of a kind, of a key or of a name; `text` says that it names none of these."""
    kinds = {kind.plural for kind in every_kind()}
    words = {kind.singular.lower() for kind in every_kind()} | kinds
    pattern = re.compile(rf"(.*_)?(key|keys|blob|blobs|name|names|placement|{'|'.join(sorted(words))})")
    untyped, seen = set[str](), set[str]()

    def look(descriptor: Any) -> None:
        if descriptor.full_name in seen or descriptor.full_name.startswith("google."):
            return
        seen.add(descriptor.full_name)
        for field in descriptor.fields:
            rule = rule_of(field)
            if field.message_type is not None:
                if not field.message_type.GetOptions().map_entry:  # the keys of a map are words of its own
                    look(field.message_type)
            elif field.type == field.TYPE_STRING and rule is None and pattern.fullmatch(field.name):
                untyped.add(field.full_name)
            elif rule is not None and rule.to not in {BLOBS, RESOURCES, TEXT, *kinds}:
                untyped.add(f"{field.full_name} refers to {rule.to}")

    for lives in world.lives.values():
        for served in lives[0].parts.service.serves:
            for method in methods_of(served.descriptor):
                look(method.request.DESCRIPTOR)
    assert not untyped
    assert tenant_kinds().keys() == NAMES.keys()
