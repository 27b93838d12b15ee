"""The generated pages: docs/events.md and docs/errors.md.

Promises: what they say is read from the code of every service of this tree; `--check` fails when a page says otherwise.
"""

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tutti.chassis.catalog import EventType, event_type, every_event, markdown
from tutti.chassis.errors import CATALOGUE, Problem
from tutti.chassis.parts import emitted
from tutti.chassis.service import Build, Service
from tutti.chassis.simulation import Simulation

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def builds() -> dict[str, Build]:
    """The build of every service of this tree; importing them declares their reasons."""
    names = sorted(path.parent.name for path in ROOT.glob("services/tutti/*/service.py"))
    return {name: importlib.import_module(f"tutti.{name}.service").build for name in names}


def services() -> list[Service]:
    """Every service, as its `build` describes it."""
    with Simulation(0, builds()) as simulation:
        return [lives[0].service for lives in simulation.lives.values()]


def consumers(every: Sequence[Service]) -> dict[str, list[str]]:
    """Who hears an event, by its type."""
    found: dict[str, list[str]] = {}
    for service in every:
        for consumed in service.consumes:
            found.setdefault(event_type(consumed.message).type, []).append(service.name)
    return {name: sorted(hear) for name, hear in found.items()}


def events_page(events: Sequence[EventType], every: Sequence[Service]) -> str:
    hear, emit = consumers(every), {event_type(message).type for each in every for message in emitted(each)}
    lines = [
        "## Who hears what",
        "",
        "Derived from `Service.consumes`. An event without a consumer is there for people (`tutti events tail`) and",
        "for the services to come.",
        "",
        "| type | emitted by | heard by |",
        "|---|---|---|",
    ]
    for event in events:
        by = event.owner if event.type in emit else "nobody yet"
        lines.append(f"| `{event.type}` | {by} | {', '.join(hear.get(event.type, [])) or '-'} |")
    return markdown(events) + "\n" + "\n".join([*lines, ""])


def errors_page(catalogue: Mapping[str, str]) -> str:
    """Reasons with their code: that of the class, or of a refusal where a service declared it."""
    codes = {each.default_reason: each.code for each in _problems(Problem)}
    lines = [
        "# Errors",
        "",
        "Generated from the catalogue of reasons by `tools/pages.py`; do not edit.",
        "",
        "A failed call has a gRPC code and, as `google.rpc.ErrorInfo` of the domain `tutti`, one of these reasons. A",
        "wrong field is named in `google.rpc.BadRequest` too. The Python client raises the class of",
        "`tutti.chassis.errors` that the server raised. Calls are tried again only after UNAVAILABLE, and only where",
        "the method declares that they may be.",
        "",
        "| reason | code | meaning, and what to do |",
        "|---|---|---|",
    ]
    for reason, meaning in sorted(catalogue.items()):
        lines.append(f"| `{reason}` | {codes.get(reason, 'FAILED_PRECONDITION')} | {meaning} |")
    return "\n".join([*lines, ""])


def _problems(of: type[Problem]) -> list[type[Problem]]:
    return [of, *(each for child in of.__subclasses__() for each in _problems(child))]


def pages() -> dict[Path, str]:
    """Every generated page, by its path."""
    every = services()
    return {DOCS / "events.md": events_page(every_event(), every), DOCS / "errors.md": errors_page(CATALOGUE)}


def stale(made: Mapping[Path, str]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path, text in made.items() if not path.exists() or path.read_text() != text]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the generated pages of docs/.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page is not what would be made")
    check: bool = parser.parse_args().check
    made = pages()
    if not check:
        for path, text in made.items():
            path.write_text(text)
    elif found := stale(made):
        sys.exit(f"stale: {', '.join(found)}; run `.venv/bin/python tools/pages.py` and commit the result")


if __name__ == "__main__":
    main()
