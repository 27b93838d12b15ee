"""The dashboards of deploy/docker/grafana/dashboards: `python -m tools.dashboards`, or `--check`.

Promises: a panel is a line of this file; `--check` fails when a committed file differs.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard as Builder
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.timeseries import Panel as Timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef

FOLDER = Path(__file__).resolve().parents[1] / "deploy" / "docker" / "grafana" / "dashboards"
PROMETHEUS = DataSourceRef(type_val="prometheus", uid="prometheus")
WIDTH, HEIGHT = 8, 7  # of a panel, in a grid of 24 columns


@dataclass(frozen=True)
class Panel:
    """A title, a unit of Grafana's, and what is drawn: an expression and its legend."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    description: str = ""


def quantiles(metric: str, by: str, only: str = "") -> tuple[tuple[str, str], ...]:
    """The median and the 99th percentile of a histogram, of series with the labels `only`."""
    return tuple(
        (f"histogram_quantile({q}, sum by ({by}, le) (rate({metric}_bucket{only}[5m])))", f"{{{{{by}}}}} p{q * 100:g}")
        for q in (0.5, 0.99)
    )


def per_job(metric: str, title: str, unit: str = "short", description: str = "") -> Panel:
    return Panel(title, unit, ((f"max by (exported_job) ({metric})", "{{exported_job}}"),), description)


PLATFORM = [
    Panel("Containers that answer", "short", (('count(up{job="tutti"} == 1)', "answer"),)),
    Panel("Calls per second", "reqps", (("sum by (container) (rate(rpc_server_seconds_count[5m]))", "{{container}}"),)),
    Panel("Time of a call", "s", quantiles("rpc_server_seconds", "container", '{kind="call"}'),
        "99 % within a second is the objective; the alert CallsSlow is at 14.4 times of it."),
    Panel("Failed calls", "percentunit", ((
        'sum by (container) (rate(rpc_server_seconds_count{code=~"INTERNAL|UNKNOWN|DATA_LOSS"}[5m]))'
        " / sum by (container) (rate(rpc_server_seconds_count[5m]))", "{{container}}"),),
        "0.1 % is the objective; the alert CallsFail is at 14.4 times of it."),
    Panel("Time of a page", "s", quantiles("http_server_seconds", "container")),
    Panel("Delay of the event loop", "s", (("max by (container) (event_loop_lag_seconds)", "{{container}}"),)),
    Panel("Loops that raise", "ops", (
        ("sum by (container, name) (rate(loop_failures_total[5m]))", "{{container}} {{name}}"),)),
    Panel("Loops that stood still", "ops", (
        ("sum by (container, name) (rate(loop_blocked_total[5m]))", "{{container}} {{name}}"),)),
    Panel("Stores that do not answer", "short", (
        ("sum by (store) (max by (service, store) (store_away))", "{{store}}"),),
        "The number of services that a store does not answer."),
    Panel("Warnings and errors in logs", "ops", (
        ("topk(10, sum by (container, template) (rate(log_records_total[5m])))", "{{container}} {{template}}"),)),
    Panel("Memory", "bytes", (("max by (container) (process_resident_memory_bytes)", "{{container}}"),)),
    Panel("Disk that is left", "percentunit", (
        ("min by (container) (data_disk_free_bytes / data_disk_size_bytes)", "{{container}}"),)),
]  # fmt: skip

RUN = [
    per_job("loss", "Loss", description="Nats a token, of the newest step."),
    per_job("validation_loss", "Validation loss"),
    per_job("bits_per_byte", "Bits per byte"),
    per_job("tokens_per_second", "Tokens per second"),
    Panel("Time of a step", "s", quantiles("step_time_seconds", "exported_job")),
    per_job("gradient_norm", "Norm of the gradient"),
    per_job("learning_rate", "Learning rate"),
    per_job("goodput_ratio", "Goodput", "percentunit", "Share of its time on a node in which a job crossed new steps."),
    per_job("communication_time_ratio", "Share of collectives", "percentunit", "At most 30 %."),
    Panel("Time in collectives", "s", quantiles("collective_latency_seconds", "exported_job")),
    per_job("ranks_running", "Ranks that run"),
    Panel("Steps skipped, attempts lost", "short", (
        ("sum by (exported_job) (increase(overflow_count_total[1h]))", "{{exported_job}} skipped"),
        ("sum by (exported_job) (increase(lost_attempts_total[1h]))", "{{exported_job}} lost"))),
    Panel("Stragglers", "short", (
        ("max by (exported_job, rank, node) (straggler_ratio)", "{{exported_job}} rank {{rank}} on {{node}}"),),
        "How many times as long as the other ranks a rank takes for a leaf; only ranks that are named as slow."),
]  # fmt: skip

DATA_PLANE = [
    Panel("Tasks", "short", (("sum by (service, kind, state) (tasks)", "{{service}} {{kind}} {{state}}"),)),
    Panel("Time to read the batches of a step", "s", quantiles("dataloader_wait_seconds", "exported_job")),
    Panel("Bytes of a dataset that were on the node", "percentunit", (
        ("min by (container, exported_job) (cache_hit_ratio)", "{{container}} {{exported_job}}"),)),
    per_job("restore_bytes", "Bytes staged for an attempt", "bytes"),
]  # fmt: skip

EVENTS = [
    Panel("Events that wait for the relay", "short", (("max by (service) (outbox_unsent_events)", "{{service}}"),)),
    Panel("Records not yet handled", "short", (
        ("max by (service, topic) (consumer_lag_records)", "{{service}} {{topic}}"),)),
    Panel("Events handled per second", "ops", (
        ("sum by (group, type) (rate(events_handled_total[5m]))", "{{group}} {{type}}"),)),
    Panel("Events without effect", "ops", (
        ("sum by (group, why) (rate(events_skipped_total[5m]))", "{{group}} {{why}}"),)),
    Panel("Dead letters", "short", (("max by (service) (dead_letters)", "{{service}}"),)),
    Panel("Events that their handler refused", "ops", (
        ("sum by (group) (rate(events_dead_lettered_total[5m]))", "{{group}}"),)),
]  # fmt: skip

CHECKPOINTS = [
    Panel("From a snapshot to its storage", "s", quantiles("checkpoint_duration_seconds", "exported_job")),
    Panel("Time that ranks stood still", "s", quantiles("checkpoint_stall_seconds", "exported_job")),
    Panel("From an assignment to a ready rank", "s", quantiles("restore_seconds", "exported_job")),
    Panel("Bytes stored", "Bps", (("sum by (exported_job) (rate(checkpoint_bytes_total[5m]))", "{{exported_job}}"),)),
    Panel("Bandwidth of the blob store", "Bps", ((
        "container:blob_write_bytes_per_second:rate15m", "{{container}}"),),
        "While it writes. CommitSlow and RestoreSlow compare with its median of six hours."),
    Panel("Reports repeated", "ops", (
        ("sum by (container, lane) (rate(retry_count_total[5m]))", "{{container}} {{lane}}"),)),
]  # fmt: skip


def of_program(name: str, title: str, description: str = "") -> Panel:
    return per_job(f'program_metric{{name="{name}"}}', title, description=description)


BEHAVIOUR = [
    of_program("reward_mean", "Reward", "Mean over the rollouts of the newest iteration."),
    of_program("reward_std", "Spread of the reward"),
    of_program("kl", "KL divergence", "Nats between the policy and its reference."),
    of_program("entropy", "Entropy"),
    of_program("clip_fraction", "Share of clipped tokens"),
    of_program("accuracy", "Accuracy of the reward model"),
    Panel("Everything that a program measures", "short", (
        ("max by (exported_job, name) (program_metric)", "{{exported_job}} {{name}}"),)),
]  # fmt: skip

DASHBOARDS = {
    "platform": PLATFORM,
    "run": RUN,
    "data-plane": DATA_PLANE,
    "events": EVENTS,
    "checkpoints": CHECKPOINTS,
    "behaviour": BEHAVIOUR,
}


def expressions() -> list[str]:
    """Every expression of every dashboard."""
    return [line for panels in DASHBOARDS.values() for panel in panels for line, _ in panel.lines]


def rendered() -> dict[str, str]:
    """Each file's text by its name."""
    return {f"{name}.json": _text(name, panels) for name, panels in DASHBOARDS.items()}


def _text(name: str, panels: Sequence[Panel]) -> str:
    title = f"Tutti: {name.replace('-', ' ')}"
    board = Builder(title).uid(f"tutti-{name}").tags(["tutti"]).refresh("30s").time("now-1h", "now").timezone("utc")
    for panel in panels:
        drawn = Timeseries().title(panel.title).description(panel.description).unit(panel.unit)
        drawn = drawn.datasource(PROMETHEUS).span(WIDTH).height(HEIGHT)
        for index, (line, legend) in enumerate(panel.lines):
            drawn = drawn.with_target(Dataquery().expr(line).legend_format(legend).ref_id(chr(ord("A") + index)))
        board = board.with_panel(drawn)
    return JSONEncoder(sort_keys=True, indent=1).encode(board.build()) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the committed files, and write nothing")
    check = parser.parse_args(arguments).check
    stale = {name: text for name, text in rendered().items() if not _is(FOLDER / name, text)}
    for name, text in stale.items():
        if check:
            print(f"{FOLDER / name} is stale: run python -m tools.dashboards", file=sys.stderr)
        else:
            (FOLDER / name).write_text(text)
            print(f"wrote {FOLDER / name}")
    return 1 if check and stale else 0


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
