"""Verbatim passages of a text in the training data of a model: the search, and its result as text."""

import json
from collections.abc import Callable, Iterator, Sequence

from tutti.chassis.errors import Refused
from tutti.client import READING_SECONDS, Client, Problem
from tutti.client.plain import Plain, plain
from tutti.contracts.lineage.v1 import TraceTextRequest
from tutti.report import mixtures
from tutti.report.values import printable

SHOWN_CHARACTERS = 90
SHOWN_STEPS = 5
LEAST = 8
"""Tokens of a passage, unless another number is asked for."""


def traced(client: Client, text: str, within: str, *, least: int = 0, limit: int = 0) -> Plain:
    """The passages of a text, each with its own text; in a dataset the steps are null. Raises Problem."""
    request = TraceTextRequest(text=text, within=within, least=least, limit=limit)
    answer, data = plain(client.lineage.TraceText(request, timeout=READING_SECONDS)), text.encode()
    answer["datasets"] = answer["datasets"] or [answer["dataset"]]  # an earlier version searched one alone
    for each in answer["passages"]:
        each["text"] = data[each["begin"] : each["end"]].decode(errors="replace")
        if not within.startswith("checkpoints/"):
            each["documents"] = [{**holder, "steps": None, "step_count": None} for holder in each["documents"]]
    return answer


def continued(
    client: Client, continuations: Sequence[Plain], checkpoint: str, *, warn: Callable[[str], object]
) -> list[Plain]:
    """Continuations with those `passages` of prompt and text together that reach behind the prompt.

    They were looked for in `datasets`; those of the training that are `unindexed` were left out. `passages` are null
    where nothing can be said: of answers to conversations and without any index in silence, otherwise `warn` is called
    with the reason.
    """
    found = []
    for each in continuations:
        told: Plain = {"passages": None, "datasets": [], "unindexed": []}
        try:
            if each["text"] and not each.get("messages"):
                whole = traced(client, each["prompt"] + each["text"], checkpoint)
                prompt = len(each["prompt"].encode())
                told = {name: whole[name] for name in told}
                told["passages"] = [one for one in whole["passages"] if one["end"] > prompt]
        except Problem as problem:
            if not (isinstance(problem, Refused) and problem.reason == "NOT_INDEXED"):
                warn(f"no spans are shown: {problem.message}")
        found.append(each | told)
    return found


def nothing(continuation: Plain) -> str:
    """The text for a continuation without passages; "" if they were not searched."""
    if not continuation["text"]:
        return "the model wrote nothing"
    if continuation["passages"] is None:
        return ""
    where = "what it was trained on"
    if continuation["unindexed"]:
        where = " or ".join(each[: mixtures.SHOWN] for each in continuation["datasets"])
    return f"no {LEAST} tokens in a row that reach into what the model wrote stand in {where}"


def unsearched(continuations: Sequence[Plain]) -> str:
    """A sentence that names the datasets of a training that were not searched; "" if all were."""
    names = list(dict.fromkeys(name for each in continuations for name in each["unindexed"]))
    if not names:
        return ""
    have = "has no index" if len(names) == 1 else "have no index"
    shown = ", ".join(name[: mixtures.SHOWN] for name in names)
    return f"{shown} {have} and could not be searched; run what made it again with `index: true`"


def longest(passages: Sequence[Plain], most: int) -> list[Plain]:
    """So many of them, the longest first."""
    return sorted(passages, key=lambda each: -each["tokens"])[:most]


def lines(passage: Plain) -> Iterator[str]:
    """A passage for people: what it says, then a line for each document that holds it."""
    text = passage["text"]
    if len(text) > SHOWN_CHARACTERS:
        text = f"{text[: SHOWN_CHARACTERS // 2]} … {text[-SHOWN_CHARACTERS // 2 :]}"
    count = passage["count"]
    yield f"{json.dumps(text, ensure_ascii=False)}  {passage['tokens']} tokens, {count:,} place{'s' * (count > 1)}"
    for each in passage["documents"]:
        yield f"    {printable(each['source']) or each['document']}{seen(each)}"


def seen(holder: Plain) -> str:
    """The steps that saw a document, in words; nothing where no checkpoint was asked about."""
    if holder["steps"] is None:
        return ""
    steps, count = holder["steps"][:SHOWN_STEPS], holder["step_count"]
    if not count:
        return "  no step saw it"
    more = f" and {count - len(steps):,} more" if count > len(steps) else ""
    return f"  step{'s' * (count > 1)} {', '.join(map(str, steps))}{more}"
