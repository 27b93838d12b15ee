"""Answers: computed again from their records, and refusals that were reported as wrong."""

from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import Failure
from tutti.cli.output import output_option, patiently, print_list, print_one
from tutti.client import READING_SECONDS
from tutti.client.plain import plain
from tutti.client.resources import full_name
from tutti.contracts.chat.v1 import ListReportsRequest, VerifyAnswerRequest

REPORTED = ("reported_at", "deployment", "rule", "version", "place", "begin", "end", "words", "user", "answer")


def extend(group: click.Group) -> None:
    """Add the verbs to the group `answers`."""

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

    @group.command("reports", short_help="List refusals of filters that users reported as wrong.")
    @click.option("--deployment", default="", metavar="NAME", help="Only those of this deployment.")
    @click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 1000), help="Reports at most.")
    @output_option
    @connection_options
    def reports(deployment: str, limit: int, output: str, **where: Any) -> None:
        """List the newest reports of wrong refusals: rule and version, the characters that were refused, and the words
        of the user.

        `place` is the number of the message in the request, or -1 for the answer. The record of the answer has the
        digest of the filter (`tutti answers show ANSWER`).

        \b
        tutti answers reports
        tutti answers reports --deployment NAME -o json
        """
        with connected(**where) as client:
            full = full_name("deployments", deployment) if deployment else ""
            found = client.chat.ListReports(ListReportsRequest(deployment=full, limit=limit)).reports
        rows = [{**plain(each), **plain(each.decision)} for each in found]
        print_list(rows, REPORTED, output, nothing="no refusal was reported as wrong")
