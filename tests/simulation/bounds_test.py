"""Bounds of crawls: with several tenants they reach no private address, unless the operator names its range."""

import pytest

from tutti.access.service import build as build_access
from tutti.chassis.identity.auth import Role
from tutti.contracts.access.v1 import CreateUserRequest
from tutti.contracts.access.v1.stubs import AccessServiceStub
from tutti.contracts.options.v1 import ROLE_ENGINEER
from tutti.ingest.bounds import private_ranges
from tutti.ingest.ranges import EVERY
from tutti.ingest.service import build as build_ingest
from tutti.simulation import Simulation

BUILDS = {"access": build_access, "ingest": build_ingest}


@pytest.mark.parametrize("declared", [None, [], ["10.0.0.0/8"]])
def test_private_addresses_are_out_of_bounds_once_there_is_another_tenant(declared: list[str] | None) -> None:
    settings = {"ingest": {"private_ranges": declared}}
    with Simulation(0, builds=BUILDS, settings=settings, rates={}) as world:
        host, access = world.lives["ingest"][0].parts.host, AccessServiceStub(world.channel("access", Role.OPERATOR))
        for tenant, unset in (("", EVERY), ("tenants/default", EVERY), ("tenants/other", ())):
            created = CreateUserRequest(display_name="Ada", roles=[ROLE_ENGINEER], tenant=tenant)
            access.CreateUser(created)
            assert private_ranges(host) == (unset if declared is None else tuple(declared))
