"""JSON objects in the files of a folder."""

import json
from typing import Any

from tutti.inference.foreign.errors import NotImportable


def json_object(data: bytes, name: str) -> dict[str, Any]:
    """The object in the bytes of a file of this name. Raises NotImportable."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NotImportable(name, "", seen=str(error), expected="JSON") from error
    if not isinstance(found, dict):
        raise NotImportable(name, "", seen=type(found).__name__, expected="a JSON object")
    return found
