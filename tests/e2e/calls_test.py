"""Calls that no client of ours would send: each is refused by name, and none is a defect."""

import importlib
import pkgutil
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

import tutti.contracts
from tutti.chassis.errors import Internal, NotFound, Problem, TooLarge, Unauthenticated
from tutti.chassis.identity.auth import HELD, Role
from tutti.chassis.rpc.methods import Method, methods_of
from tutti.chassis.rpc.usertokens import INVITATION
from tutti.client import Client, connect
from tutti.contracts.access.v1 import InviteNodeRequest
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.pipeline.v1 import CreateRunRequest
from tutti.web.tokens import digest, new_token

RUBBISH: dict[int, Any] = {
    FieldDescriptor.CPPTYPE_STRING: "../no such\nthing\0",
    FieldDescriptor.CPPTYPE_BOOL: True,
    FieldDescriptor.CPPTYPE_INT32: -(2**31),
    FieldDescriptor.CPPTYPE_INT64: 2**63 - 1,
    FieldDescriptor.CPPTYPE_UINT32: 2**32 - 1,
    FieldDescriptor.CPPTYPE_UINT64: 2**64 - 1,
    FieldDescriptor.CPPTYPE_FLOAT: float("nan"),
    FieldDescriptor.CPPTYPE_DOUBLE: float("inf"),
    FieldDescriptor.CPPTYPE_ENUM: 99,
}


def methods() -> list[Method]:
    """Every method that services serve, as the contracts declare them."""
    modules = [each.name for each in pkgutil.walk_packages(tutti.contracts.__path__, "tutti.contracts.")]
    files = [importlib.import_module(name).DESCRIPTOR for name in modules if name.endswith("_pb2")]
    return [each for file in files for service in file.services_by_name.values() for each in methods_of(service)]


def rubbish(message: Message, depth: int = 3) -> Message:
    """Every field set to something that cannot be meant."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None:
            if depth and not field.message_type.GetOptions().map_entry:
                value = getattr(message, field.name)
                rubbish(value.add() if field.is_repeated else value, depth - 1)
        elif field.is_repeated:
            getattr(message, field.name).append(of_type(field))
        else:
            setattr(message, field.name, of_type(field))
    return message


def of_type(field: Any) -> Any:
    return b"\xff" if field.type == FieldDescriptor.TYPE_BYTES else RUBBISH[field.cpp_type]


@pytest.fixture(scope="module")
def clients(served: Path) -> Iterator[dict[Role, Client]]:
    found = {role: connect(served, role=role) for role in HELD}
    invitation = INVITATION + new_token()
    found[Role.OPERATOR].access.InviteNode(InviteNodeRequest(token_digest=digest(invitation), node="nodes/z"))
    found[Role.JOINER] = connect(served, token=invitation)
    yield found
    for client in found.values():
        client.close()


def refusal(call: Any, request: Message) -> Problem | None:
    """Why it was refused; None when it was answered."""
    try:
        answer = call(request)
        if isinstance(answer, Iterator):
            next(answer, None)
    except Problem as problem:
        return problem
    return None


@pytest.mark.parametrize("method", methods(), ids=lambda each: each.path)
def test_a_call_without_sense_is_refused_by_name(method: Method, clients: dict[Role, Client]) -> None:
    channel = clients[min(method.roles, key=lambda role: role.value)].channel("pipeline")
    open_call: Callable[..., Any] = channel.unary_stream if method.streams else channel.unary_unary
    call = open_call(method.path, response_deserializer=method.response.FromString)
    for request in (method.request(), rubbish(method.request())):
        problem = refusal(call, request)
        assert not isinstance(problem, Internal), problem
        assert problem is None or not problem.transient, problem
        assert "Traceback" not in str(problem)


def test_a_request_that_is_too_large_and_a_name_of_nothing_are_refused(clients: dict[Role, Client]) -> None:
    pipeline = clients[Role.ENGINEER].pipeline
    with pytest.raises(TooLarge, match="by blob"):
        pipeline.CreateRun(CreateRunRequest(request_id="large", recipe="x" * (5 << 20)))
    with pytest.raises(NotFound, match="runs/none does not exist"):
        pipeline.GetRun(GetRequest(name="runs/none"))


def test_a_wrong_token_opens_nothing(served: Path) -> None:
    address = (served / "endpoint").read_text().strip()
    with connect(address=address, token=secrets.token_hex()) as client, pytest.raises(Unauthenticated, match="tokens"):
        client.pipeline.GetRun(GetRequest(name="runs/none"))
