"""The process in which a chat template of others runs: a sandbox of jinja2, with limits of time, memory and output.

It is started with this file alone. It reads one JSON object, `{"template", "words", "date", "asked": [[roles, open]]}`,
and writes a list: for each conversation its text, or the error. The content of a message is a mark with its number,
between two spaces, so templates see who speaks and never what is said. The text between GENERATED and ENDED is that of
a `{% generation %}` block.
"""

import json
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import ext, nodes, parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

OPENED, CLOSED, GENERATED, ENDED = "\U000f1e00", "\U000f1e01", "\U000f1e02", "\U000f1e03"
"""Marks around the number of a message, and around a block. They are of no language, and no template has them."""
SPACE = "\u205f"
"""A space that templates do not write, and cut where they cut spaces."""
CPU_SECONDS, MEMORY_BYTES, MOST_CHARACTERS = 5, 1 << 30, 1 << 20


class Generation(ext.Extension):
    """The block `{% generation %}`, with which templates say what the assistant writes."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: parser.Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

    def _marked(self, caller: Callable[[], str]) -> str:
        return f"{GENERATED}{caller()}{ENDED}"


class Refused(Exception):
    """The template refuses the conversation."""


def refuse(message: str) -> str:
    """The function `raise_exception` of templates. Raises Refused."""
    raise Refused(message)


def environment(date: str) -> jinja2.Environment:
    """The environment that templates expect, as transformers has it; `date` is the day that they read, ISO 8601."""
    day = datetime.fromisoformat(date)
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **_allowed(options))
    made.globals.update(raise_exception=refuse, strftime_now=day.strftime)
    return made


def _allowed(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name in ("indent", "separators", "sort_keys")}


def rendered(template: jinja2.Template, words: Mapping[str, str], roles: Sequence[str], opened: bool) -> str:
    """The text of a conversation of these roles; `opened`: up to where the assistant begins. Raises Refused."""
    messages = [
        {"role": role, "content": f"{SPACE}{OPENED}{number}{CLOSED}{SPACE}"} for number, role in enumerate(roles)
    ]
    text = ""
    asked = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": opened, **words}
    for part in template.generate(asked):
        text += part
        if len(text) > MOST_CHARACTERS:
            raise Refused(f"it writes more than {MOST_CHARACTERS:,} characters")
    return text


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    asked = json.load(sys.stdin)
    found: list[dict[str, str]] = []
    try:
        template = environment(asked["date"]).from_string(asked["template"])
        for roles, opened in asked["asked"]:
            try:
                found.append({"text": rendered(template, asked["words"], roles, opened)})
            except Refused as error:
                found.append({"refused": str(error)[:500]})
        said: Any = found
    except (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        said = {"error": f"{type(error).__name__}: {error}"[:500]}
    except (MemoryError, RecursionError) as error:
        said = {"error": f"it needs too much memory ({type(error).__name__})"}
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
