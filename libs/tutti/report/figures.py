"""Figures of a run, as the pages of a run and its report show them. Pure."""

from dataclasses import dataclass

from tutti.records.counts import counted
from tutti.web.formats import skipped


@dataclass(frozen=True)
class Figure:
    """A number with its name, as text, and a note about it."""

    name: str
    value: str
    note: str = ""


def ranks(count: int) -> str:
    """Return such as `2 ranks`."""
    return counted(count, "rank")


def tokens(train: int, held_out: int) -> Figure:
    """The tokens of a dataset."""
    return Figure("Tokens", f"{train:,}", f"{held_out:,} held out")


def steps(count: int, note: str) -> Figure:
    """The steps of a training."""
    return Figure("Steps", f"{count:,}", note)


def skips(count: int, in_a_row: int) -> list[Figure]:
    """The steps that a training skipped, `in_a_row` of them the newest ones; none without any."""
    told = skipped(count, in_a_row)
    return [Figure("Skipped", f"{count:,}", f"{told}: a number was not finite, or there was a spike")] if told else []


def loss(value: float, note: str) -> Figure:
    """The loss of a training in nats a token; the note says of which steps."""
    return Figure("Loss", f"{value:.3f}", f"nats a token, {note}")


def bits_per_byte(value: float, note: str) -> Figure:
    """The bits per byte of a model on held-out text, beside a baseline."""
    return Figure("Bits per byte", f"{value:.3f}", note)


def checkpoints(count: int, note: str) -> Figure:
    """The checkpoints of a run."""
    return Figure("Checkpoints", f"{count:,}", note)
