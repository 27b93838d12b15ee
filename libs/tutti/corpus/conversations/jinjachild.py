"""The process in which a chat template of others runs: a sandbox of jinja2, with limits of time, memory and output.

It is started with this file alone. It reads one JSON object, `{"template", "words", "date", "roles", "open"}`, and
writes another: the `text` of a conversation, why it is `refused`, or the `error` of the template. The content of a
message is a mark with its number, between two spaces, so templates see who speaks and never what is said. More marks
are before the answers, and around the text of a `{% generation %}` block.
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

OPENED, CLOSED, GENERATED, ENDED, BEGUN = "\U000f1e00", "\U000f1e01", "\U000f1e02", "\U000f1e03", "\U000f1e04"
"""Marks around the number of a message, around a block, and where an answer begins. They are of no language."""
SPACE = "\u205f"
"""A space that templates do not write, and cut where they cut spaces."""
CPU_SECONDS, MEMORY_BYTES, MOST_CHARACTERS, MOST_WORDS = 5, 1 << 30, 1 << 20, 500


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


def rendered(template: jinja2.Template, words: Mapping[str, str], roles: Sequence[str], *, opened: bool) -> str:
    """The text of a conversation of these roles; `opened`: up to where the assistant begins. Raises Refused."""
    contents = (f"{SPACE}{OPENED}{number}{CLOSED}{SPACE}" for number in range(len(roles)))
    messages = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]
    text = ""
    asked = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": opened, **words}
    for part in template.generate(asked):
        text += part
        if len(text) > MOST_CHARACTERS:
            raise Refused(f"it writes more than {MOST_CHARACTERS:,} characters")
    return text


def marked(template: jinja2.Template, words: Mapping[str, str], roles: Sequence[str], *, opened: bool) -> str:
    """The same, with a mark where each answer begins: behind the text after which the assistant is asked for it."""
    text = rendered(template, words, roles, opened=opened)
    if GENERATED in text:
        return text
    for number in reversed([place for place, role in enumerate(roles) if role == "assistant"]):
        try:
            before = rendered(template, words, roles[:number], opened=True)
        except (Refused, jinja2.TemplateError, LookupError):
            continue
        if text.startswith(before):
            text = f"{before}{BEGUN}{number}{CLOSED}{text[len(before) :]}"
    return text


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    asked = json.load(sys.stdin)
    try:
        template = environment(asked["date"]).from_string(asked["template"])
        said = {"text": marked(template, asked["words"], asked["roles"], opened=asked["open"])}
    except Refused as error:
        said = {"refused": str(error)[:MOST_WORDS]}
    except (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        said = {"error": f"{type(error).__name__}: {error}"[:MOST_WORDS]}
    except (MemoryError, RecursionError) as error:
        said = {"error": f"it needs too much memory ({type(error).__name__})"}
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
