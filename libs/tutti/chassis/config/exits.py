"""Exit codes of the platform's processes, and the one line that goes with them."""

import sys

FAILED, MISUSE, IN_USE, KILLED = 1, 2, 4, 130  # in use: by another supervisor
PREFIX = "tutti: "


def say(message: str, code: int) -> int:
    """Write the line to stderr; the code."""
    print(f"{PREFIX}{' '.join(message.split())}", file=sys.stderr, flush=True)
    return code
