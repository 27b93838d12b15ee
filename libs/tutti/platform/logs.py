"""Logs: one JSON object a line, with the trace that it belongs to.

Promises: imports no telemetry library, so that a supervisor stays small; an exception becomes one line, not many; what
strangers can cause again and again does not displace everything else (`Capped`).
"""

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

from tutti.platform.logfiles import LOG_BYTES

# They log every attempt to reach a server that is away; their adapters raise what is worth telling.
LOUD = ("kafka", "urllib3")


MOST_LINES = 600
"""Lines a minute of one place in the code."""


class Capped(logging.Filter):
    """Lets at most `most` lines of each place in the code pass a minute; the next one has the number left out."""

    def __init__(self, most: int = MOST_LINES) -> None:
        super().__init__()
        self._most = most
        self._seen: dict[tuple[str, int], tuple[int, int]] = {}
        """The minute of the newest line, and its lines so far, by place."""

    def filter(self, record: logging.LogRecord) -> bool:
        place, minute = (record.pathname, record.lineno), int(record.created // 60)
        newest, count = self._seen.get(place, (minute, 0))
        if newest != minute:
            if count > self._most:
                record.msg = f"{record.getMessage()} ({count - self._most} such lines were left out before)"
                record.args = ()
            count = 0
        self._seen[place] = minute, count + 1
        return count < self._most


class JsonLines(logging.Formatter):
    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
            **_trace(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(service: str, level: str = "info", *, file: Path | None = None) -> None:
    """Send every log of this process to stderr (or a file, rotated) as JSON lines; replaces what was configured."""
    handler = logging.StreamHandler(sys.stderr) if file is None else _rotating(file)
    handler.setFormatter(JsonLines(service))
    handler.addFilter(Capped())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _rotating(file: Path) -> logging.Handler:
    return RotatingFileHandler(file, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")


def _trace() -> dict[str, str]:
    trace = sys.modules.get("opentelemetry.trace")  # absent where nothing is traced
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
