"""Records that are read by their annotations: what each is read as, and how a field is named that does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tutti.records.errors import InvalidManifest
from tutti.records.fields import Digest, Fields
from tutti.records.records import later, written

DIGEST = "blake3:" + "1" * 64


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    share: float


@dataclass(frozen=True, slots=True)
class Even:
    """A record that checks more than its types."""

    count: int

    @classmethod
    def read(cls, fields: Fields) -> Even:
        made = fields.record(cls)
        if made.count % 2:
            raise InvalidManifest(f"{made.count} is odd")
        return made


@dataclass(frozen=True, slots=True)
class Whole:
    digest: Digest
    part: Part
    parts: tuple[Part, ...]
    even: Even
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    counts: Mapping[str, int]
    is_last: bool
    note: str = ""
    more: Mapping[str, int] = field(default_factory=dict)
    limit: int = later(0, since="0.2")


WHOLE = Whole(DIGEST, Part("a", 0.5), (Part("b", 1.0), Part("c", 2.0)), Even(4), ("x", "y"), (1, 2), {"z": 3}, True)


def read(value: Mapping[str, object]) -> Whole:
    return Fields(value, path="body", error=InvalidManifest).record(Whole)


def test_what_is_written_is_read_by_annotations() -> None:
    assert read(written(WHOLE)) == WHOLE
    assert read(written(WHOLE) | {"limit": 7}).limit == 7


def test_a_field_with_a_default_may_be_missing() -> None:
    given = written(WHOLE)
    del given["note"], given["more"]
    assert read(given) == WHOLE


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("digest", "blake3:1", "body.digest"),
        ("part", {"name": "a"}, "body.part.share"),
        ("parts", [{"name": "b", "share": 1}, {"name": 1, "share": 1}], "body.parts[1].name"),
        ("even", {"count": -2}, "body.even.count"),
        ("even", {"count": 3}, "3 is odd"),
        ("names", ["x", 1], "body.names[1]"),
        ("sizes", [1, True], "body.sizes[1]"),
        ("counts", {"z": "3"}, "body.counts.z"),
        ("is_last", 1, "body.is_last"),
        ("note", None, "body.note"),
        ("limit", 0, "body.limit"),
    ],
)
def test_a_field_that_does_not_hold_is_named_by_its_path(key: str, value: object, path: str) -> None:
    with pytest.raises(InvalidManifest) as refused:
        read(written(WHOLE) | {key: value})
    assert path in str(refused.value)


@pytest.mark.parametrize("key", ["digest", "part", "parts", "names", "sizes", "counts", "is_last"])
def test_a_required_field_that_is_missing_is_named(key: str) -> None:
    given = written(WHOLE)
    del given[key]
    with pytest.raises(InvalidManifest, match=f"body.{key}: missing"):
        read(given)


def test_a_field_that_the_caller_has_read_is_not_read_again() -> None:
    given = written(WHOLE) | {"names": "x y"}
    assert Fields(given, path="body", error=InvalidManifest).record(Whole, names=("x", "y")) == WHOLE


def test_a_field_of_a_type_that_is_not_known_is_a_mistake_of_the_record() -> None:
    @dataclass(frozen=True)
    class Odd:
        values: list[int]

    Odd.__annotations__["values"] = list[int]
    with pytest.raises(TypeError, match="values"):
        Fields({"values": [1]}, path="body", error=InvalidManifest).record(Odd)
