"""Held-out prompts: which conversations contain one, or n-grams of one.

Promises: n-grams are those of `contamination.py`, found in all that a conversation says beside its system message. A
prompt that is too short for an n-gram is contained where the messages of the user have the same words. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from tutti.corpus.conversations.conversations import Conversation, Role
from tutti.dedup.contamination import Evaluation, Sought
from tutti.dedup.shingles import spelled

TOGETHER = 4096
"""Conversations whose texts are in memory at once, as Arrow arrays."""


def contaminated(conversations: Sequence[Conversation], held_out: Iterable[Conversation]) -> list[str]:
    """The digests of the conversations that contain a held-out prompt, sorted. Raises TooManyTexts."""
    asked = {_asked(each): each.digest for each in held_out}
    prompts = {tuple(spelled(text.encode())) for text in asked}
    evaluation = Evaluation([batch({digest: text for text, digest in asked.items()})], Sought())
    found = {each.digest for each in conversations if tuple(spelled(_asked(each).encode())) in prompts}
    for first in range(0, len(conversations), TOGETHER):
        here = batch({each.digest: said(each) for each in conversations[first : first + TOGETHER]})
        found |= {each.doc_id for each in evaluation.found(here)}
    return sorted(found)


def _asked(conversation: Conversation) -> str:
    return "\n\n".join(each.content for each in conversation.messages if each.role is Role.USER)


def said(conversation: Conversation) -> str:
    """The text of all messages but the system message."""
    return "\n\n".join(each.content for each in conversation.messages if each.role is not Role.SYSTEM)


def batch(texts: Mapping[str, str]) -> pa.RecordBatch:
    """Texts by id as rows of `doc_id` and `text`."""
    columns = [pa.array(list(texts)), pa.array(list(texts.values()), pa.large_string())]
    return pa.record_batch(columns, names=["doc_id", "text"])
