"""What each credential can do at worst: SECURITY.md has a sentence and every method, which are those of the protos."""

import re
from pathlib import Path

import pytest
from tools.pages import services

from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.methods import methods_of
from tutti.platform.admin import admin_descriptor
from tutti.web.pages import Get, Site

PAGE = Path(__file__).resolve().parents[2] / "SECURITY.md"
EVERYWHERE = {"Get", "List"}
"""Verbs of methods that read resources as everybody with a role may; the page names the others."""


@pytest.fixture(scope="module")
def told() -> dict[Role, set[str]]:
    """What the page names, by role."""
    _, *sections = re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)
    found = {}
    for section in sections:
        role, _, rest = section.partition("\n")
        found[Role(role.strip().strip("`"))] = set(re.findall(r"`([^`]+)`", rest.partition("\n## ")[0]))
    return found


@pytest.fixture(scope="module")
def allowed() -> dict[Role, set[str]]:
    """The methods and the routes of pages that change something, or read more than resources, by role."""
    every, found = services(), {role: set[str]() for role in Role}
    descriptors = [each.descriptor for service in every for each in service.serves]
    for descriptor in [*descriptors, admin_descriptor]:
        for method in methods_of(descriptor):
            if re.match("[A-Z][a-z]*", method.name)[0] not in EVERYWHERE:  # type: ignore[index]
                for role in method.roles:
                    found[role].add(method.name)
    for service in every:
        if isinstance(service.pages, Site):
            for route in service.pages.routes:
                for role in route.roles & {Role.ANNOTATOR, Role.SIMULATOR, Role.CLIENT}:
                    if not isinstance(route, Get):
                        found[role].add(route.path)
    return found


def test_the_page_names_every_credential(told: dict[Role, set[str]]) -> None:
    assert told.keys() == set(Role)


def test_the_page_names_what_each_credential_may_do_and_nothing_else(
    told: dict[Role, set[str]], allowed: dict[Role, set[str]]
) -> None:
    for role, methods in allowed.items():
        assert told[role] == methods, f"{role}: lacks {methods - told[role]}, has {told[role] - methods} in excess"
