"""Every method of every service declares who may call it."""

import importlib
import pkgutil

import pytest
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor, ServiceDescriptor

import tutti.contracts
from tutti.chassis.rpc.methods import READS, methods_of
from tutti.contracts.options.v1 import ROLE_AGENT, ROLE_UNSPECIFIED, Role, access, refers


def files() -> list[FileDescriptor]:
    modules = pkgutil.walk_packages(tutti.contracts.__path__, "tutti.contracts.")
    names = [module.name for module in modules if module.name.endswith("_pb2")]
    return [importlib.import_module(name).DESCRIPTOR for name in names]


SERVICES: dict[str, ServiceDescriptor] = {
    service.full_name: service for file in files() for service in file.services_by_name.values()
}
METHODS = {method.full_name: method for service in SERVICES.values() for method in service.methods}


def roles_of(method: MethodDescriptor) -> set[int]:
    return set(method.GetOptions().Extensions[access].roles)


def test_there_are_services_to_look_at() -> None:
    assert "tutti.admin.v1.Admin" in SERVICES
    assert "tutti.scheduler.v1.SchedulerService.CreateJob" in METHODS


@pytest.mark.parametrize("name", METHODS)
def test_a_method_names_at_least_one_role(name: str) -> None:
    roles = METHODS[name].GetOptions().Extensions[access].roles
    assert roles
    assert ROLE_UNSPECIFIED not in roles
    assert all(role in Role.values() for role in roles)
    assert len(set(roles)) == len(roles)


@pytest.mark.parametrize("name", SERVICES)
def test_the_chassis_can_serve_it(name: str) -> None:
    assert len(methods_of(SERVICES[name])) == len(SERVICES[name].methods)


@pytest.mark.parametrize("name", [name for name in METHODS if name.rpartition(".")[2].startswith("Create")])
def test_a_create_can_be_repeated(name: str) -> None:
    assert METHODS[name].GetOptions().Extensions[access].retry
    assert {"request_id", "validate_only"} <= set(METHODS[name].input_type.fields_by_name)


def test_methods_that_only_read_take_no_request_that_changes_something() -> None:
    """Their failures are not in the audit trail; those of every other method are."""
    methods = [method for service in SERVICES.values() for method in methods_of(service)]
    reading = {method.path: set(method.request.DESCRIPTOR.fields_by_name) for method in methods if not method.changes}
    assert {path: fields for path, fields in reading.items() if fields & {"request_id", "validate_only"}} == {}
    assert "/tutti.scheduler.v1.SchedulerService/ListJobs" in reading
    assert "/tutti.scheduler.v1.SchedulerService/CreateJob" not in reading
    assert [verb for verb in READS if not any(path.rpartition("/")[2].startswith(verb) for path in reading)] == []


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if roles_of(method) == {ROLE_AGENT}])
def test_an_agent_is_refused_that_names_another_node(name: str) -> None:
    """The chassis refuses it before the method is called, for fields that declare `acts`."""
    fields = METHODS[name].input_type.fields
    rules = {field.name: field.GetOptions().Extensions[refers] for field in fields}
    nodes = {field for field, rule in rules.items() if field == "node" or rule.to == "nodes"}
    assert {field for field in nodes if not rules[field].acts} == set()
