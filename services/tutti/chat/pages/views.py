"""The views of the chat page, as JSON. Pure."""

from dataclasses import asdict, dataclass
from math import exp

from tutti.chat.alternatives import Place
from tutti.chat.conversations import Message
from tutti.chat.filter.words import language_of_words
from tutti.chat.learning import Past
from tutti.chat.overlap import Overlap
from tutti.chat.saying import FILTERED
from tutti.chat.turns import Shown
from tutti.contracts.evaluation.v1 import Release, Standing
from tutti.corpus.spans.index import LEAST


@dataclass(frozen=True)
class ChatView:
    """`conversation` is the id of the one that is shown first; empty for a new one. `owner` is the user of the page."""

    conversation: str
    owner: str


def shown(found: Shown) -> dict[str, object]:
    """A conversation with its messages."""
    return {**found.conversation.to_json(), "messages": [_message(each) for each in found.messages]}


def _message(message: Message) -> dict[str, object]:
    """A message; one with words of the filter has their language."""
    language = language_of_words(message.text) if message.finished == FILTERED else ""
    return {**message.to_json(), "language": language}


def place_view(place: Place) -> dict[str, object]:
    """The likeliest tokens in a place of an answer, the likeliest first, with its own token among them."""
    is_there = any(each.token.id == place.chosen.token.id for each in place.likeliest)
    likeliest = [*place.likeliest, *([] if is_there else [place.chosen])]
    return {
        "chosen": place.chosen.token.id,
        "likeliest": [{**asdict(each.token), "probability": exp(each.logprob)} for each in likeliest],
        "withheld": place.withheld,
    }


def overlap_view(overlap: Overlap, text: str, *, readable: bool) -> dict[str, object]:
    """The overlap of an answer with the training data; documents are named to readers who may read them."""
    encoded = text.encode()
    return {
        "checkpoint": overlap.checkpoint,
        "datasets": list(overlap.datasets),
        "unindexed": list(overlap.unindexed),
        "unsearched": [{"checkpoint": name, "reason": reason} for name, reason in overlap.unsearched],
        "least": LEAST,
        "truncated": overlap.truncated,
        "missing": overlap.missing,
        "spans": [
            {
                "text": encoded[each.begin : each.end].decode(errors="replace"),
                "tokens": each.tokens,
                "count": each.count,
                "documents": [
                    {"name": held.document, "source": held.source, "steps": held.step_count} for held in each.documents
                ]
                if readable
                else [],
            }
            for each in overlap.spans
        ],
    }


def past_view(past: Past) -> dict[str, object]:
    """The trainings and subjects of a model, its most frequent answer, and the prompts that the empty page offers."""
    trainings = [{"program": each.program, "steps": each.steps, "data": each.data} for each in past.trainings]
    often = asdict(past.often) if past.often else None
    return {
        "trainings": trainings,
        "whole": past.whole,
        "prompts": list(past.prompts),
        "often": often,
        "subjects": list(past.subjects),
    }


def release_view(name: str, release: Release | None, missing: str = "") -> dict[str, object]:
    """A release with its evidence; its name and the reason where it could not be read."""
    if release is None:
        return {"name": name, "standing": "", "missing": missing, "people": "", "findings": []}
    mixed = "people and simulated people" if release.mixed else "people"
    return {
        "name": name,
        "standing": Standing.Name(release.standing).removeprefix("STANDING_").lower(),
        "missing": "",
        "people": "simulated people" if release.simulated else mixed,
        "findings": [
            {
                "rule": each.rule,
                "comparison": each.comparison,
                "seen": each.seen if each.HasField("seen") else None,
                "limit": each.limit,
                "judgements": each.judgements,
                "passed": each.passed,
            }
            for each in release.findings
        ],
    }
