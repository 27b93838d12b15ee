"""Comparisons: the pairs on which a reward model and those who judged differ."""

from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.naming import LATEST, resolved
from tutti.cli.output import JSON, output_option, print_json, say
from tutti.client.plain import plain
from tutti.contracts.evaluation.v1 import ReadComparisonRequest
from tutti.judgements.intervals import Proportion
from tutti.report.values import printable


def extend(group: click.Group) -> None:
    """Add the verb to the group `comparisons`."""

    @group.command("differ", short_help="Show pairs on which the reward model is wrong about people.")
    @click.argument("name", default=LATEST)
    @click.option("--count", type=click.IntRange(1, 100), default=10, show_default=True, help="Number of pairs.")
    @output_option
    @connection_options
    def differ(name: str, count: int, output: str, **where: Any) -> None:
        """Read the pairs of comparison NAME on which the reward model and those who judged differ most.

        They show what the reward model has not learned, such as answers that it likes for their length.

        \b
        tutti comparisons ls
        tutti comparisons differ NAME --count 3
        """
        with connected(**where) as client:
            full = resolved(client, "comparisons", name)
            found = client.comparisons.ReadComparison(ReadComparisonRequest(name=full, count=count)).pairs
        if output == JSON:
            print_json({"pairs": [plain(each) for each in found]})
            return
        for number, each in enumerate(found):
            if number:
                click.echo()
            click.echo(printable(each.prompt))
            click.echo(f"baseline: {printable(each.baseline)}")
            click.echo(f"candidate: {printable(each.candidate)}")
            say(
                f"[reward model: {each.promised:.0%} for the candidate; "
                f"judged: {Proportion.of(each.judged * each.judgements, each.judgements)}]"
            )
