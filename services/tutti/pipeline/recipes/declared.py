"""Keys of recipes that follow from the parameters of records, where each is declared once.

The limits of a key are checked by the record's declaration, in recipes as in records.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import AfterValidator, Field, create_model
from pydantic_core import PydanticCustomError

from tutti.chassis.config.recipetext import Part, Real
from tutti.model.parameter import Parameter, parameters

P = TypeVar("P", bound=Part)
LIMITS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
"""The limits of a parameter by their names in a JSON schema."""


class Declaring(Part):
    """A section with keys that records declare."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def declares(*records: type, without: Collection[str] = (), **defaults: Any) -> Callable[[type[P]], type[P]]:
    """Add the parameters of records to a section; `defaults` replace those of the records, by key.

    A key with the default None has no value unless it is set. A key that the section has already stays as it is, unless
    the record declares a parameter of its base again.
    """

    def add(part: type[P]) -> type[P]:
        keys = {key: field for record in records for key, field in _keys(record, part, defaults)}
        made: dict[str, Any] = {key: field for key, field in keys.items() if key not in without}
        for key in defaults.keys() - made.keys():
            field = copy(part.model_fields[key])
            field.default = defaults[key]
            made[key] = (field.annotation, field)
        section: type[P] = create_model(
            part.__name__, __base__=part, __module__=part.__module__, __doc__=part.__doc__, **made
        )
        return section

    return add


def values(record: type, section: Part) -> dict[str, Any]:
    """Return the parameters of a record by its fields, as far as a section has a value for them."""
    keys = {name: declared.key for name, declared in parameters(record).items()}
    found = {name: getattr(section, key) for name, key in keys.items() if key in type(section).model_fields}
    return {name: value for name, value in found.items() if value is not None}


def _keys(record: type, part: type[Part], defaults: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    kinds, fields = get_type_hints(record), {field.name: field for field in dataclasses.fields(record)}
    for name, declared in parameters(record).items():
        again = sum(name in getattr(each, "__annotations__", {}) for each in record.__mro__) > 1
        if declared.key in part.model_fields and not again and declared.key not in defaults:
            continue
        default, kind = defaults.get(declared.key, fields[name].default), _checked(kinds[name], declared)
        key = Field(... if default is dataclasses.MISSING else default, description=declared.description)
        yield declared.key, (kind | None if default is None else kind, key)


def _checked(kind: Any, declared: Parameter) -> Any:
    if declared.choices:
        return Literal[declared.choices]

    def check(value: Any) -> Any:
        if expected := declared.expected(value):
            raise PydanticCustomError("limit", expected)
        return value

    limits = {word: getattr(declared, limit) for limit, word in LIMITS.items()}
    shown: dict[str, Any] = {word: limit for word, limit in limits.items() if limit is not None}
    return Annotated[Real if kind is float else kind, AfterValidator(check), Field(json_schema_extra=shown)]
