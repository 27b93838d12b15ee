"""The methods of a gRPC service as its descriptor declares them.

Promises: a method without an access option, or an API without one of its methods, is refused before anything is served.
"""

import re
from dataclasses import dataclass
from functools import cache

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from tutti.chassis.identity.auth import Role
from tutti.contracts.options.v1 import Role as WireRole
from tutti.contracts.options.v1 import access

READS = frozenset(
    {"Check", "Describe", "Digest", "Doctor", "Export", "Find", "Get", "List", "Read", "Show", "Tail", "Trace", "Watch"}
)
"""The verbs, the first words of methods, that change nothing."""


class BadService(Exception):
    """A service cannot be served: which method, what it lacks."""


@dataclass(frozen=True)
class Method:
    name: str
    path: str
    service: str
    request: type[Message]
    response: type[Message]
    streams: bool
    roles: frozenset[Role]
    retry: bool
    long: bool = False

    @property
    def kind(self) -> str:
        """`stream`, `long` if it reads whole data, or `call`, which is answered soon."""
        return "stream" if self.streams else "long" if self.long else "call"

    @property
    def changes(self) -> bool:
        """True if a call may change something: its verb is none of those that only read."""
        verb = re.match("[A-Z][a-z]*", self.name)
        return verb is None or verb[0] not in READS

    @property
    def unanswered(self) -> str:
        """A message that says what to do when no answer came in time."""
        if "request_id" in self.request.DESCRIPTOR.fields_by_name:
            return "its effect is unknown: repeat with the same request_id"
        return "ask again, for less at once or with more time"

    def only_checks(self, request: bytes) -> bool:
        """Return True if a request asks only whether the call would be accepted."""
        try:
            return bool(getattr(self.request.FromString(request), "validate_only", False))
        except DecodeError:
            return False


def methods_of(descriptor: ServiceDescriptor) -> list[Method]:
    """Raises BadService when a method declares no role, or streams its requests."""
    return [_method(descriptor, method) for method in descriptor.methods]


def check_api(descriptor: ServiceDescriptor, api: object) -> None:
    """Raises BadService when the API lacks a method of the descriptor."""
    missing = [method.name for method in descriptor.methods if not callable(getattr(api, method.name, None))]
    if missing:
        raise BadService(f"{type(api).__name__} lacks {', '.join(missing)} of {descriptor.full_name}")


@cache
def find_method(path: str) -> Method | None:
    """The method of `/package.Service/Name`, if its proto has been imported."""
    service, _, name = path.strip("/").partition("/")
    try:
        descriptor = descriptor_pool.Default().FindServiceByName(service)
        return _method(descriptor, descriptor.methods_by_name[name])
    except (KeyError, BadService):
        return None


def _method(descriptor: ServiceDescriptor, method: MethodDescriptor) -> Method:
    options = method.GetOptions()
    if not options.HasExtension(access) or not options.Extensions[access].roles:
        raise BadService(f"{method.full_name} declares no role: give it the option tutti.options.v1.access")
    if method.client_streaming:
        raise BadService(f"{method.full_name} streams its requests: call it once a request instead")
    declared = options.Extensions[access]
    return Method(
        name=method.name,
        path=f"/{descriptor.full_name}/{method.name}",
        service=descriptor.full_name,
        request=GetMessageClass(method.input_type),
        response=GetMessageClass(method.output_type),
        streams=method.server_streaming,
        roles=frozenset(Role(WireRole.Name(role).removeprefix("ROLE_").lower()) for role in declared.roles),
        retry=declared.retry,
        long=declared.long,
    )
