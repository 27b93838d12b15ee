"""Tenancy: a kind that has a tenant is hidden from the other tenants, or the page about access says who sees it."""

import re
from pathlib import Path

from tutti.chassis.rpc.kinds import every_kind

ROOT = Path(__file__).resolve().parents[2]
FOR_OPERATORS = {"users"}
"""Kinds whose tenant says where somebody belongs, and which operators manage for all tenants."""


def test_every_kind_with_a_tenant_is_hidden_from_the_other_tenants() -> None:
    """A kind that declares `tenants` cannot be served without a predicate: `Resource` refuses it."""
    fields = {kind.plural: set(kind.message.DESCRIPTOR.fields_by_name) for kind in every_kind()}
    having = {plural for plural, names in fields.items() if "tenant" in names}
    assert having - FOR_OPERATORS <= {kind.plural for kind in every_kind() if kind.tenants}


def test_what_is_made_of_kinds_of_tenants_is_said_to_be_of_a_tenant_or_not() -> None:
    """The page about access names every kind, once."""
    page = (ROOT / "docs/operations/access.md").read_text()
    section = page.partition("## Tenants\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    told = {plural: "tenant" in whose.split() for kinds, whose in rows for plural in re.findall(r"`([a-z-]+)`", kinds)}
    assert told == {kind.plural: kind.tenants for kind in every_kind()}
