"""YAML (or JSON) text of a recipe, read safely.

Promises: nothing is constructed but plain values; a key that is given twice, too much text and what is no mapping are
refused with the line, and so is a number that YAML 1.1 reads otherwise than people do (010 is 8 there, 1:30 is 90).
"""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from tutti.chassis.errors import InvalidField

MAX_BYTES = 64 << 10
DECIMAL = "a number without a leading zero and without a colon; a text stands in quotes"
_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_NOT_DECIMAL = re.compile(r"[+-]?0[0-7_]+|.*:.*")


class _NotDecimal(yaml.constructor.ConstructorError):
    """An octal number, or one to the base of 60."""


class _Loader(yaml.SafeLoader):
    """Refuses what YAML would take in silence: a second value for a key, aliases, and numbers that are not decimal."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(
                None, None, "aliases are not used in recipes; write the value out", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is not a word", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)

    def construct_decimal(self, node: yaml.ScalarNode) -> int | float:
        if _NOT_DECIMAL.fullmatch(node.value):
            raise _NotDecimal(None, None, node.value, node.start_mark)
        return self.construct_yaml_int(node) if node.tag == _INT else self.construct_yaml_float(node)


_INT, _REAL = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
for _tag in (_INT, _REAL):
    _Loader.add_constructor(_tag, _Loader.construct_decimal)


def read(text: str) -> Mapping[str, Any]:
    """The mapping that a recipe's text holds. Raises InvalidField."""
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        raise InvalidField("recipe", seen=f"{size} bytes", expected=f"at most {MAX_BYTES}")
    try:
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - it is a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        expected = DECIMAL if isinstance(error, _NotDecimal) else "a YAML mapping"
        raise InvalidField("recipe", seen=f"{where}{error.problem}", expected=expected) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidField("recipe", seen=str(error) or "too deeply nested", expected="a YAML mapping") from None
    if not isinstance(value, dict):
        raise InvalidField("recipe", seen="nothing" if value is None else value, expected="a YAML mapping")
    return value


def scalar(key: str, text: str) -> Any:
    """A value of the command line as YAML reads it; what is no single value stays text. Raises InvalidField."""
    try:
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - it is a SafeLoader
    except _NotDecimal:
        raise InvalidField(key, seen=text, expected=DECIMAL.partition(";")[0]) from None
    except (yaml.YAMLError, RecursionError, ValueError):
        return text
    return text if isinstance(value, dict | list) or value is None else value


def number(value: Any) -> Any:
    """Text that anybody reads as a number (1e-3, which YAML 1.1 does not) as that number; all else as it is."""
    return float(value) if isinstance(value, str) and _FLOAT.fullmatch(value) else value
