"""The record of an answer: its inputs and digests of its results, without any text.

Promises: an answer whose request is still there is computed again from its record, and compared part by part; two
answers with equal records had equal bytes.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from tutti.chassis.store.clipping import clipped
from tutti.chat.answering import joined, pieces
from tutti.chat.kinds import Prompt
from tutti.chat.requests import ChatRequest
from tutti.chat.routing import Router
from tutti.chat.saying import Record, Served
from tutti.model.spec import Recorded
from tutti.records.canonical import JsonValue, bytes_digest, content_digest

PARTS = ("prompt_digest", "ids_digest", "text_digest", "finished", "completion_tokens")
"""The parts in which a recomputed answer is compared."""
CANCELLED = "cancelled"
"""The end of an answer whose reader left, or that failed, before its own end."""
MOST_MOVES, MOST_REASON = 32, 120
"""The largest number of moves in a record, and of bytes in the reason of one."""
MOST_DECISIONS, DECISION_BYTES = 64, 2800
"""The largest number of decisions of the filter in a record, and about the bytes of all of them."""


@dataclass(frozen=True)
class AnswerRecord(Recorded):
    """`request_digest` is that of the request as it was read; `seed` is the one that was used.

    `signature` is that of the engine; `exact`: it promises equal bits. `moves` are the first of `moved` ones, [token
    number, reason] each. `decisions` are the first of `decided` ones of the filter, [rule, version, place, begin, end]
    each; `filter` is its digest, empty without one.
    """

    model: str
    tokenizer: str
    template: str
    signature: str
    exact: bool
    request_digest: str
    seed: int
    prompt_digest: str
    ids_digest: str
    text_digest: str
    finished: str
    moves: list[list[Any]]
    moved: int
    prompt_tokens: int
    completion_tokens: int
    bytes: int
    filter: str
    decisions: list[list[Any]]
    decided: int


@dataclass(frozen=True)
class Verdict:
    """`differs` names the parts in which the recomputed answer is another; `bytes` is the length of its text.

    `signature` is that of the engine that computed it again.
    """

    differs: tuple[str, ...]
    bytes: int
    signature: str

    @property
    def equal(self) -> bool:
        return not self.differs


def digest_of_request(request: ChatRequest) -> str:
    """The digest of all that decides an answer in a request."""
    shaping, drawn = request.shaping, request.sampling(0)
    continued = {"prompts": [_held(each) for each in request.prompts], "echo": request.echo} if request.prompts else {}
    given = {"given": list(request.given)} if request.given else {}
    return content_digest(
        {
            **continued,
            **given,
            "messages": [[str(each.role), each.content] for each in request.messages],
            "stops": list(request.stops),
            "temperature": drawn.temperature,
            "top_p": drawn.top_p,
            **({"top_k": drawn.top_k} if drawn.top_k else {}),
            "tokens": request.tokens or 0,
            "bias": [[token, value] for token, value in shaping.bias],
            "presence": shaping.presence,
            "frequency": shaping.frequency,
        },
        kind="chat request",
    )


def record_of(served: Served, request: ChatRequest, record: Record, finished: str) -> AnswerRecord:
    """The record of an answer that has ended."""
    text, answer = record.text.encode(), record.answer
    opened, moves = (answer.opened, answer.moves) if answer is not None else (None, [])
    return AnswerRecord(
        model=served.model,
        tokenizer=served.tokenizer.version,
        template=served.renderer.digest,
        signature=opened.signature if opened is not None else "",
        exact=opened is not None and opened.exact,
        request_digest=digest_of_request(request),
        seed=record.request.sampling.seed,
        prompt_digest=digest_of_ids((*record.request.prompt, *record.request.forced)),
        ids_digest=digest_of_ids(record.ids),
        text_digest=bytes_digest(text),
        finished=finished,
        moves=[[each.at, clipped(each.reason, MOST_REASON)] for each in moves[:MOST_MOVES]],
        moved=len(moves),
        prompt_tokens=record.prompt_tokens,
        completion_tokens=record.completion_tokens,
        bytes=len(text),
        filter=served.filter.digest,
        decisions=_first([[each.rule, each.version, each.place, each.begin, each.end] for each in record.decisions]),
        decided=len(record.decisions),
    )


def _first(decisions: list[list[Any]]) -> list[list[Any]]:
    """The first decisions that fit into a record."""
    kept, size = list[list[Any]](), 0
    for decision in decisions[:MOST_DECISIONS]:
        size += sum(len(str(part)) + 2 for part in decision)
        if size > DECISION_BYTES:
            break
        kept.append(decision)
    return kept


async def verify(
    served: Served, request: ChatRequest, router: Router, kept: AnswerRecord, *, id: str, said: int
) -> Verdict:
    """Compute an answer again from its request and compare. Raises what `pieces` raises.

    Of an answer that was cancelled, the tokens that were `said` are computed again, and the text that they made
    visible.
    """
    join = await asyncio.to_thread(joined, served, request, id=id, seed=kept.seed, salt="")
    finished, text = "", ""
    cut = kept.finished == CANCELLED
    if cut:
        limits, finished = replace(join.limits, tokens=max(1, said)), CANCELLED
        join = replace(join, limits=limits, forced=join.forced[:said], given=join.given[:said])
    record = Record(join)
    if not cut or said:
        async with aclosing(pieces(served, request, router, record)) as found:
            async for piece in found:
                text += piece.text if piece.token is not None or not cut else ""
                finished = finished if cut else piece.finished or finished
    record.text = text
    again = record_of(served, request, record, finished)
    parts = ["model", "tokenizer", "template", "filter", "request_digest", "seed", *PARTS]
    parts += [] if cut else ["decisions", "decided"]
    differs = tuple(part for part in parts if getattr(again, part) != getattr(kept, part))
    return Verdict(differs, again.bytes, again.signature)


def _held(prompt: Prompt) -> JsonValue:
    return prompt if isinstance(prompt, str) else list(prompt)


def digest_of_ids(ids: Sequence[int]) -> str:
    """The digest of token ids."""
    return content_digest({"ids": list(ids)}, kind="token ids")
