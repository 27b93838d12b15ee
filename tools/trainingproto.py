"""Add the fields of the records of a training that its messages lack to `protos/tutti/common/v1/training.proto`.

Promises: fields that are there keep their numbers, types and comments; a new field gets the next number.
"""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

from tutti.model.parameter import parameters
from tutti.model.spec import Recorded
from tutti.model.training import Training
from tutti.scheduler.trainings import part_of

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "protos/tutti/common/v1/training.proto"
TYPES = {int: "uint64", float: "double", bool: "bool", str: "string"}
FIELD = re.compile(r"^  (?:optional |repeated )?[\w.]+ (\w+) = (\d+)", re.MULTILINE)


def completed(text: str, records: list[type[Recorded]]) -> str:
    """Return the text of the proto with every field of these records. Raises KeyError for a type without a scalar."""
    for record in records:
        start = re.search(rf"^message {record.__name__} {{\n", text, re.MULTILINE)
        if start is None:
            raise KeyError(f"{FILE.name} has no message {record.__name__}; write it there once, with its first field")
        end = text.index("\n}", start.end()) + 1
        known = {name: int(number) for name, number in FIELD.findall(text[start.end() : end])}
        text = text[:end] + "".join(_lines(record, known)) + text[end:]
    return text


def _lines(record: type[Recorded], known: dict[str, int]) -> Iterator[str]:
    number, kinds, declared = max(known.values(), default=0), get_type_hints(record), parameters(record)
    for field in dataclasses.fields(record):  # type: ignore[arg-type]
        if field.name not in known:
            number += 1
            about = f": {declared[field.name].description}" if field.name in declared else ""
            optional = "" if field.default is dataclasses.MISSING else "optional "
            yield f"  // {field.name}{about}.\n  {optional}{TYPES[kinds[field.name]]} {field.name} = {number};\n"


def main() -> None:
    parts = [part for field in dataclasses.fields(Training) if (part := part_of(Training, field.name)) is not None]
    FILE.write_text(completed(FILE.read_text(), [Training, *parts]))


if __name__ == "__main__":
    main()
