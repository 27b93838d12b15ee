"""Logs: one JSON object a line, with the trace that it belongs to.

Promises: imports no telemetry library, so that a supervisor stays small; an exception becomes one line, not many.
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
