"""Resources of any kind by name, and lists of them, read page by page."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tutti.chassis.rpc import kinds
from tutti.client.client import Client


def full_name(kind: str, name: str) -> str:
    """The name of a resource whose kind may be left out."""
    return name if name.startswith(f"{kind}/") else f"{kind}/{name}"


def get_one(client: Client, plural: str, name: str) -> Any:
    """A resource by its name, with or without its kind. Raises Problem."""
    kind = kinds.named(plural)
    return kind.get(client.channel(kind.owner), full_name(plural, name))


def list_all(
    client: Client,
    plural: str,
    filter_text: str = "",
    *,
    fields: Sequence[str] = (),
    damaged: Callable[[str], None] | None = None,
) -> Iterator[Any]:
    """Every resource of a kind, page by page; of each these fields, or all.

    `damaged` is called with the reason for each that is left out; without it, that is an error. Raises Problem.
    """
    kind = kinds.named(plural)
    for page in kind.pages(client.channel(kind.owner), filter_text, fields, damaged=damaged):
        yield from page
