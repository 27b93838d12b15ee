"""Answers: computed again from their records."""

from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import Failure
from tutti.cli.output import output_option, patiently, print_one
from tutti.client import READING_SECONDS
from tutti.client.resources import full_name
from tutti.contracts.chat.v1 import VerifyAnswerRequest


def extend(group: click.Group) -> None:
    """Add the verb to the group `answers`."""

    @group.command("verify", short_help="Compute an answer again, and compare it with its record.")
    @click.argument("name")
    @output_option
    @connection_options
    def verify(name: str, output: str, **where: Any) -> None:
        """Compute answer NAME again from its request and its seed, and compare every byte with its record.

        The header `x-tutti-answer` of a response names the record of its answer. A deployment of the same model must
        serve. The exit code is 1 if a part differs; the parts are named.

        \b
        tutti answers ls
        tutti answers verify NAME -o json
        """
        with connected(**where) as client:
            full = full_name("answers", name)
            with patiently(f"computes {full} again"):
                verdict = client.chat.VerifyAnswer(VerifyAnswerRequest(name=full), timeout=READING_SECONDS)
        print_one(
            {
                "answer": full,
                "equal": verdict.equal,
                "differs": list(verdict.differs),
                "bytes": verdict.bytes,
                "signature": verdict.signature,
            },
            output,
        )
        if not verdict.equal:
            raise Failure(f"{full} was computed again and differs in {', '.join(verdict.differs)}")
