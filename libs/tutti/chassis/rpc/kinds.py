"""Kinds of resources, as the protos declare them: owner, plural, manifest, parents, columns, and their calls.

Promises: a kind is declared once, at its message; an incomplete declaration is refused when it is first read; the calls
of every kind of work have the same shape (Create, Get, List, Cancel).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import grpc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from tutti.chassis.errors import CorruptRow
from tutti.chassis.events.catalog import every_message, owner_of
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.methods import find_method
from tutti.contracts.common.v1 import CancelRequest, GetRequest, ListRequest
from tutti.contracts.options.v1 import resource as option

PAGE = 100
"""Resources: of 2 KiB each, so that a page is no large block of memory, which would leave holes where it was."""


class BadKind(Exception):
    """A kind of resource is declared incompletely."""


@dataclass(frozen=True)
class Parent:
    """A field that names a resource's parents; `plural`: their kind, where the field has only their ids or digests."""

    field: str
    relation: str
    plural: str = ""

    def names(self, resource: Message) -> Iterator[str]:
        """Return the names of the parents that a resource has in this field."""
        for value in values(resource, self.field):
            if self.plural and not value.startswith(f"{self.plural}/"):
                value = f"{self.plural}/{value.removeprefix('blake3:')}" if value else ""
            if value:
                yield value


@dataclass(frozen=True)
class Kind:
    """A kind of resource and the calls that its owner answers for it.

    `manifest` is the kind of manifest with its content, `digest` the field that identifies the content, both "" where
    there is none. `columns`, `about` and `empty` are what the command line prints. With `tenants` its resources belong
    to tenants: for a caller of another one they do not exist.
    """

    message: type[Message]
    owner: str
    plural: str
    manifest: str
    digest: str
    parents: tuple[Parent, ...]
    columns: tuple[str, ...]
    about: str
    empty: str
    tenants: bool

    @property
    def singular(self) -> str:
        return self.message.DESCRIPTOR.name

    @property
    def readers(self) -> frozenset[Role]:
        """The roles that may read its resources, in whatever way: those of its Get."""
        method = find_method(self._method("Get")[0])
        assert method is not None
        return method.roles

    def content_digest(self, resource: Message) -> str:
        """Return the digest of a resource's content; "" before it has one."""
        return next(values(resource, self.digest), "") if self.digest else ""

    def manifest_key(self, resource: Any) -> str:
        """Return the key of the manifest with a resource's content; "" before it has one, and for kinds without."""
        if not self.manifest:
            return ""
        within = resource.result if "result" in self.message.DESCRIPTOR.fields_by_name else resource
        return str(within.manifest_key)

    def create(self, channel: grpc.Channel, name: str, spec: Message, *, validate_only: bool = False) -> Any:
        """Ask the owner for work; the resource as it was recorded, or would be. Raises Problem."""
        path, request = self._method("Create")
        made = _call(channel, path)(request(request_id=name, name=name, spec=spec, validate_only=validate_only))
        return getattr(made, self.singular.lower())

    def get(self, channel: grpc.Channel, name: str) -> Any:
        """Raises Problem."""
        return _call(channel, self._method("Get")[0])(GetRequest(name=name))

    def cancel(self, channel: grpc.Channel, name: str) -> None:
        """Raises Problem."""
        _call(channel, self._method("Cancel")[0])(CancelRequest(name=name, request_id=f"{name}/cancel"))

    def pages(
        self,
        channel: grpc.Channel,
        text: str = "",
        fields: Sequence[str] = (),
        *,
        seconds: float | None = None,
        damaged: Callable[[str], None] | None = None,
    ) -> Iterator[Sequence[Any]]:
        """Every page of the owner's list that matches a filter; of each resource these fields, or all.

        `seconds` is the deadline of each page, None for that of the channel. `damaged` is called with the reason for
        each resource that the list leaves out; without it, such a list is an error. Raises Problem.
        """
        call = _call(channel, self._method("List", self.plural.capitalize())[0])
        token, mask = "", FieldMask(paths=fields)
        while True:
            request = ListRequest(page_size=PAGE, page_token=token, filter=text, read_mask=mask)
            page = call(request, timeout=seconds)
            for each in page.damaged:
                if damaged is None:
                    raise CorruptRow(each)
                damaged(each)
            yield getattr(page, self.plural)
            token = page.next_page_token
            if not token:
                return

    @property
    def service(self) -> str:
        """The full name of the gRPC service with its calls: that of its proto file, or else its owner's."""
        file = self.message.DESCRIPTOR.file
        own = [each.full_name for each in file.services_by_name.values()]
        name = "".join(part.capitalize() for part in self.owner.split("_"))
        return own[0] if own else f"{file.package}.{name}Service"

    def _method(self, verb: str, noun: str = "") -> tuple[str, type[Message]]:
        path = f"/{self.service}/{verb}{noun or self.singular}"
        method = find_method(path)
        if method is None:
            raise BadKind(f"{path} is not declared: {self.plural} cannot be asked for")
        return path, method.request


def values(message: Any, path: str) -> Iterator[Any]:
    """The values of a dotted field path, in order; a repeated field on the way gives one for each item."""
    first, _, rest = path.partition(".")
    found = getattr(message, first)
    many = message.DESCRIPTOR.fields_by_name[first].is_repeated
    for item in found if many else (found,):
        yield from values(item, rest) if rest else (item,)


_known: dict[str, Kind] = {}


def is_kind(message: type[Message]) -> bool:
    return message.DESCRIPTOR.GetOptions().HasExtension(option)


def may_read(message: type[Message], roles: frozenset[Role]) -> bool:
    """Return whether one of these roles may read resources of a type; always if it is no kind of the product."""
    return not is_kind(message) or not kind_of(message).readers.isdisjoint(roles)


def kind_of(message: type[Message]) -> Kind:
    """The kind that a message declares. Raises BadKind."""
    name = message.DESCRIPTOR.full_name
    if name not in _known:
        _known[name] = _read(message)
    return _known[name]


@cache
def every_kind() -> tuple[Kind, ...]:
    """The kinds of the product's contracts, by plural. Raises BadKind."""
    return tuple(sorted((kind_of(each) for each in every_message() if is_kind(each)), key=lambda kind: kind.plural))


@cache
def owners() -> dict[str, str]:
    """The service that owns each kind, by plural."""
    return {kind.plural: kind.owner for kind in every_kind()}


@cache
def every_service() -> tuple[str, ...]:
    """The services of the product; lineage owns no kind."""
    return tuple(sorted({*owners().values(), "lineage"}))


@cache
def named(plural: str) -> Kind:
    """A kind by its plural. Raises KeyError."""
    return {kind.plural: kind for kind in every_kind()}[plural]


def _read(message: type[Message]) -> Kind:
    descriptor = message.DESCRIPTOR
    if not is_kind(message):
        raise BadKind(f"{descriptor.full_name} has no (tutti.options.v1.resource) option")
    declared = descriptor.GetOptions().Extensions[option]
    if not declared.plural:
        raise BadKind(f"{descriptor.full_name}: plural must be set")
    for path in (*(parent.field for parent in declared.parents), *filter(None, (declared.digest,))):
        _check_path(descriptor, path)
    return Kind(
        message=message,
        owner=owner_of(descriptor.file.package),
        plural=declared.plural,
        manifest=declared.manifest,
        digest=declared.digest,
        parents=tuple(Parent(each.field, each.relation, each.plural) for each in declared.parents),
        columns=tuple(declared.columns),
        about=declared.about,
        empty=declared.empty,
        tenants=declared.tenants,
    )


def _check_path(descriptor: Any, path: str) -> None:
    within: Any = descriptor
    field: Any = None
    for part in path.split("."):
        field = within.fields_by_name.get(part) if within is not None else None
        if field is None:
            raise BadKind(f"{descriptor.full_name}: {path!r} is no field of it")
        within = field.message_type
    if field is None or field.type != FieldDescriptor.TYPE_STRING:
        raise BadKind(f"{descriptor.full_name}: {path!r} must be a string")


def _call(channel: grpc.Channel, path: str) -> Callable[..., Any]:
    method = find_method(path)
    assert method is not None
    return channel.unary_unary(
        path, request_serializer=method.request.SerializeToString, response_deserializer=method.response.FromString
    )
