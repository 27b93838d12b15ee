"""A new token: made by the command, shown once; the platform stores its digest."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import click

from tutti.cli.connection import connected
from tutti.cli.output import JSON, print_json, say
from tutti.client import Client
from tutti.web.tokens import ID_DIGITS, digest, new_token


@dataclass(frozen=True)
class NewToken:
    """`prefix` says what kind of token it is."""

    prefix: str
    secret: str = field(default_factory=new_token)

    @property
    def text(self) -> str:
        return self.prefix + self.secret

    @property
    def digest(self) -> str:
        return digest(self.text)

    def issue(
        self, call: Callable[[Client], Any], owner: str, output: str, words: Callable[[Any, str], str], **where: Any
    ) -> None:
        """Register the token by `call`, and print it.

        `owner` is the field of the answer that names whom it belongs to; `words` are given the answer and the time when
        the token expires.
        """
        with connected(**where) as client:
            answer = call(client)
        until = answer.expires_at.ToJsonString()
        if output == JSON:
            found = {"id": self.digest[:ID_DIGITS], owner: getattr(answer, owner), "token": self.text}
            print_json(found | {"expires_at": until})
            return
        click.echo(self.text)
        say(words(answer, until))
