"""Conversations as documents: the rules and classifiers for texts of the web decide which conversations stay.

Promises: the decision about a conversation is that about a document with the text of its messages. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tutti.corpus.conversations.conversations import Conversation
from tutti.corpus.documents.documents import Document, Extraction, MediaType
from tutti.ingest.quality import choosing, measures
from tutti.ingest.quality.choosing import Choice

_TOGETHER = 4096


@dataclass(frozen=True)
class Sieve:
    """The rules that a conversation must pass, and the classifiers whose scores they ask for."""

    choice: Choice = field(default_factory=lambda: Choice((), frozenset()))
    models: measures.Models = ()

    def rejected(self, conversations: Sequence[Conversation]) -> dict[str, str]:
        """The first rule that rejects a conversation, by the conversation's digest; nothing for those that stay."""
        found: dict[str, str] = {}
        if not self.choice.rules:
            return found
        for first in range(0, len(conversations), _TOGETHER):
            here = {_document(each): each.digest for each in conversations[first : first + _TOGETHER]}
            inspected = [measures.inspect(document, ()) for document in here]
            digests = {document.doc_id: digest for document, digest in here.items()}
            gone = choosing.rejected(measures.measured(inspected, self.models), self.choice)
            rows = zip(gone["doc_id"].to_pylist(), gone["rule"].to_pylist(), strict=True)
            found |= {digests[doc_id]: rule for doc_id, rule in rows}
        return found


def _document(conversation: Conversation) -> Document:
    return Document.make(
        source=conversation.digest,
        text="\n\n".join(each.content for each in conversation.messages),
        title="",
        media_type=MediaType.PLAIN,
        charset="utf-8",
        replaced_characters=0,
        extraction=Extraction.VERBATIM,
        normalisation_version=0,
    )
