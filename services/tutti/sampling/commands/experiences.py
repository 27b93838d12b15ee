"""The rollouts of an iteration, as a policy wrote them."""

from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.naming import LATEST, resolved
from tutti.cli.output import JSON, output_option, print_json, say
from tutti.client.plain import plain
from tutti.contracts.sampling.v1 import (
    ROLLOUT_ORDER_BEST,
    ROLLOUT_ORDER_KL,
    ROLLOUT_ORDER_LONGEST,
    ROLLOUT_ORDER_UNSPECIFIED,
    ROLLOUT_ORDER_WORST,
    ReadExperienceRequest,
)
from tutti.report.values import printable

ORDERS = {
    "number": ROLLOUT_ORDER_UNSPECIFIED,
    "best": ROLLOUT_ORDER_BEST,
    "worst": ROLLOUT_ORDER_WORST,
    "longest": ROLLOUT_ORDER_LONGEST,
    "kl": ROLLOUT_ORDER_KL,
}


def extend(group: click.Group) -> None:
    """Add the rollouts to the group `experiences`."""

    @group.command("rollouts", short_help="Show the answers of a policy in one iteration.")
    @click.argument("name", default=LATEST)
    @click.option(
        "--order", type=click.Choice(list(ORDERS)), default="best", show_default=True, help="Order of the answers."
    )
    @click.option(
        "--count", type=click.IntRange(1, 1000), default=5, show_default=True, help="Maximum number of answers."
    )
    @output_option
    @connection_options
    def rollouts(name: str, order: str, count: int, output: str, **where: Any) -> None:
        """Read rollouts of experience NAME: prompts, answers, rewards, KL divergence from the reference.

        \b
        tutti experiences ls --filter job=JOB
        tutti experiences rollouts JOB/0/12 --order worst
        tutti experiences rollouts JOB/0/12 --order kl --count 50 -o json
        """
        with connected(**where) as client:
            full = resolved(client, "experiences", name)
            request = ReadExperienceRequest(name=full, order=ORDERS[order], count=count)
            found = client.experiences.ReadExperience(request).rollouts
        if output == JSON:
            print_json({"rollouts": [plain(each) for each in found]})
            return
        for number, each in enumerate(found):
            if number:
                click.echo()
            click.echo(printable(each.prompt))
            click.echo(f"assistant: {printable(each.text)}")
            dropped = "" if each.kept else "; its group was dropped"
            say(
                f"[{each.number}: reward {each.reward:.4g}, advantage {each.advantage:.3g}, KL {each.kl:.3g} nats, "
                f"{each.tokens} tokens; ended by: {each.stop}{dropped}]"
            )
