"""The declaration of a parameter: a field of a record with its bounds and description.

A record, the section of a recipe that has the parameter as a key, and the documentation of keys follow from it.
"""

import dataclasses
import operator
from dataclasses import dataclass
from typing import Any

from tutti.records.records import later

_DECLARED = "parameter"
MOST = 2**31
"""The upper limit of whole numbers without one of their own, as messages hold them."""


@dataclass(frozen=True)
class Parameter:
    """`key` is the name of the parameter in recipes; limits that are None do not exist."""

    description: str
    key: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    choices: tuple[str, ...] = ()

    def expected(self, value: Any) -> str:
        """Return what is expected where a value is outside of the limits; "" for one that is not."""
        if self.choices:
            return "" if value in self.choices else f"one of {', '.join(self.choices)}"
        limits = (
            (self.ge, "at least", operator.ge),
            (self.gt, "above", operator.gt),
            (self.le, "at most", operator.le),
            (self.lt, "below", operator.lt),
        )
        known = [(words, limit, holds(value, limit)) for limit, words, holds in limits if limit is not None]
        if all(holds for _, _, holds in known):
            return ""
        return f"a number {' and '.join(f'{words} {limit:,}' for words, limit, _ in known)}"


def parameter(
    default: Any = dataclasses.MISSING,
    description: str = "",
    *,
    key: str = "",
    since: str = "",
    **limits: Any,
) -> Any:
    """Return the field of a record that is a parameter; version `since` added it."""
    field: Any = later(default, since=since) if since else dataclasses.field(default=default)
    field.metadata = {**field.metadata, _DECLARED: Parameter(description, key, **limits)}
    return field


def parameters(record: type) -> dict[str, Parameter]:
    """Return the parameters that a record declares, by its fields."""
    return {
        field.name: dataclasses.replace(found, key=found.key or field.name)
        for field in dataclasses.fields(record)
        if (found := field.metadata.get(_DECLARED)) is not None
    }


def keys_of(record: Any) -> dict[str, Any]:
    """Return the parameters of a record by their keys in a recipe, without those that have the record's default."""
    defaults = {field.name: field.default for field in dataclasses.fields(record)}
    found = {declared.key: name for name, declared in parameters(type(record)).items()}
    return {key: getattr(record, name) for key, name in found.items() if getattr(record, name) != defaults[name]}


def limited(record: Any) -> tuple[str, str]:
    """Return the first field of a record that is outside of its limits and what is expected; ("", "") for none."""
    for name, declared in parameters(type(record)).items():
        if expected := declared.expected(getattr(record, name)):
            return name, expected
    return "", ""
