"""Chat templates of others: a text in jinja, that turns messages into text.

A template runs in a process with limits, and sees no message: from the roles of a conversation follows its *skeleton*,
text with a place for each message. Contents are filled in here, so none can write what the template writes: text of a
message never becomes an added token.

Promises: the same roles have the same skeleton; templates read DAY as today.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tutti.corpus.conversations import jinjachild
from tutti.corpus.conversations.jinjachild import BEGUN, CLOSED, ENDED, GENERATED, OPENED, SPACE
from tutti.corpus.conversations.rendered import TemplateError
from tutti.records.canonical import JsonValue, content_digest

DAY = "2024-07-26"
"""The day that templates read as today, so that a conversation has the same text on every day."""
SECONDS = 60.0
MOST_BYTES = 1 << 20
MOST_MESSAGES = 1_000
_PLACE = re.compile(f"({SPACE}?){OPENED}([0-9]+){CLOSED}({SPACE}?)|{BEGUN}([0-9]+){CLOSED}|({GENERATED})|({ENDED})")


@dataclass(frozen=True)
class Slot:
    """The place of the content of a message; its spaces are cut where the template cuts them."""

    message: int
    left: bool
    right: bool

    def filled(self, content: str) -> str:
        content = content.lstrip() if self.left else content
        return content.rstrip() if self.right else content


@dataclass(frozen=True)
class Generated:
    """The beginning or the end of the text of the assistant, where the template marks it."""

    begins: bool


@dataclass(frozen=True)
class Begun:
    """The place where the answer with this number begins, as the assistant is asked for it."""

    message: int


Piece = str | Slot | Generated | Begun


@dataclass(frozen=True)
class ChatTemplate:
    """`text` is the source in jinja; `words` are the special tokens that it names, such as `bos_token`."""

    text: str
    words: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """`blake3:<hex>` of all that decides how a conversation is rendered."""
        definition: dict[str, JsonValue] = {"day": DAY, "text": self.text, "words": dict(self.words)}
        return content_digest(definition, kind="chat template of others")

    def skeleton(self, roles: Sequence[str], *, opened: bool = False) -> tuple[Piece, ...]:
        """Return the text of a conversation of these roles; `opened`: up to where the assistant begins.

        Raises TemplateError for a template that does not work, or refuses the conversation.
        """
        if len(roles) > MOST_MESSAGES:
            raise TemplateError(f"a conversation of {len(roles):,} messages; expected at most {MOST_MESSAGES:,}")
        if any(each in self.text for each in (OPENED, CLOSED, GENERATED, ENDED, BEGUN, SPACE)):
            raise TemplateError("its chat template has a character that is a mark here: U+F1E00 to U+F1E04, or U+205F")
        request = {"template": self.text, "words": dict(self.words), "date": DAY, "roles": [*roles], "open": opened}
        said = _run(json.dumps(request).encode())
        if "refused" in said:
            raise TemplateError(f"the chat template refuses this conversation: {said['refused']}")
        if "error" in said:
            raise TemplateError(f"its chat template does not work: {said['error']}")
        return pieces_of(said["text"], len(roles))


def pieces_of(text: str, messages: int) -> tuple[Piece, ...]:
    """The pieces of the text of a template. Raises TemplateError unless it has one place for each message."""
    found, end, seen = list[Piece](), 0, list[int]()
    for match in _PLACE.finditer(text):
        if match.start() > end:
            found.append(text[end : match.start()])
        if match[4] is not None:
            found.append(Begun(int(match[4])))
        elif match[2] is None:
            found.append(Generated(match[5] is not None))
        else:
            seen.append(int(match[2]))
            found.append(Slot(seen[-1], not match[1], not match[3]))
        end = match.end()
    if end < len(text):
        found.append(text[end:])
    for number in range(messages):
        if (count := seen.count(number)) != 1:
            raise TemplateError(f"the chat template has {count} places for message {number + 1}; expected one")
    return tuple(found)


def _run(request: bytes) -> dict[str, str]:
    """The answer of the process. Raises TemplateError where it ends without an answer."""
    paths = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(each)]
    environment = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-P", str(Path(jinjachild.__file__))]
    try:
        ended = subprocess.run(
            command, input=request, capture_output=True, timeout=SECONDS, env=environment, cwd="/", check=False
        )
    except subprocess.TimeoutExpired:
        raise TemplateError(f"its chat template did not end within {SECONDS:.0f} s") from None
    if ended.returncode != 0:
        why = "needs too much time" if ended.returncode < 0 else "needs too much memory, or does not work"
        words = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise TemplateError(f"its chat template {why} ({'; '.join(words) or ended.returncode})")
    said: dict[str, str] = json.loads(ended.stdout)
    return said
