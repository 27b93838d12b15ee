"""Published versions of demonstrations: accepted answers of campaigns as one immutable set of conversations.

Promises: a version follows from the set of accepted answers, in whatever order they were written; it names no writer,
reviewer or time, and is never changed. Only answers that are accepted when it is asked for can be published.
"""

from collections.abc import Iterable

from tutti.annotation.tables import Tables
from tutti.backbone import Blobs
from tutti.chassis import version
from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.principal import Principal
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.work.work import Outcome, Work, publish
from tutti.contracts.annotation.v1 import (
    AcceptedDemonstrations,
    Demonstrations,
    DemonstrationsSpec,
    FindDemonstrationsResponse,
)
from tutti.contracts.common.v1 import Artifact
from tutti.corpus.conversations.conversations import Conversation
from tutti.corpus.conversations.conversationset import ConversationsBody
from tutti.records.manifest import Kind
from tutti.staging import fetching, linefiles

LOGIC_VERSION = "demonstrations-1"
LINES = "annotation/demonstrations"
MOST_CAMPAIGNS = 16
LAYOUT = "messages"


def check(spec: DemonstrationsSpec) -> None:
    """Raises InvalidField naming what cannot work."""
    names = [each.campaign for each in spec.accepted]
    if not 1 <= len(names) <= MOST_CAMPAIGNS or len(set(names)) != len(names):
        seen = ", ".join(names)[:200] or "nothing"
        raise InvalidField("spec.accepted", seen=seen, expected=f"1 … {MOST_CAMPAIGNS} campaigns, each once")
    for place, each in enumerate(spec.accepted):
        if not each.campaign.startswith("campaigns/"):
            expected = "a name campaigns/ID"
            raise InvalidField(f"spec.accepted[{place}].campaign", seen=each.campaign or "nothing", expected=expected)
        if not each.manifest_key or not each.content_digest:
            expected = "the key and digest that FindDemonstrations returns"
            raise InvalidField(f"spec.accepted[{place}].manifest_key", seen="nothing", expected=expected)


def found(blobs: Blobs, campaign: str, conversations: Iterable[Conversation]) -> FindDemonstrationsResponse:
    """Store the accepted answers of a campaign, and return what identifies them."""
    result, body = _published(blobs, conversations, 0)
    accepted = AcceptedDemonstrations(
        campaign=campaign, manifest_key=result.manifest_key, content_digest=result.content_digest
    )
    return FindDemonstrationsResponse(accepted=accepted, conversations=body.lines.count)


def publishing(host: Host, tables: Tables) -> Work[Demonstrations]:
    """The work of publishing; demonstrations exist for those for whom all their campaigns do."""

    def run(context: TaskContext, demonstrations: Demonstrations) -> Outcome:
        every, duplicates = list[Conversation](), 0
        for each in demonstrations.spec.accepted:
            context.check()
            manifest = fetching.manifest(host.blobs, each.manifest_key, each.content_digest, Kind.CONVERSATIONS)
            every += linefiles.read(host.blobs, manifest, Conversation)
            duplicates += ConversationsBody.read(manifest).duplicates
        if not every:
            names = ", ".join(each.campaign for each in demonstrations.spec.accepted)
            raise WorkFailed(
                f"{names}: no answer is accepted; annotators write answers with the key E, and a second person "
                "accepts them with `tutti demonstrations accept`"
            )
        result, body = _published(host.blobs, every, duplicates)

        def fill(unit: Unit, demonstrations: Demonstrations) -> None:
            demonstrations.result.CopyFrom(result)
            tables.hold(unit, result.manifest_key, [each.campaign for each in demonstrations.spec.accepted])
            demonstrations.conversations, demonstrations.duplicates = body.lines.count, body.duplicates

        return fill

    def shown(unit: Unit, demonstrations: Demonstrations, principal: Principal) -> bool:
        return tables.all_shown(unit, [each.campaign for each in demonstrations.spec.accepted], principal)

    return Work(host, "demonstrations", Demonstrations, run, LOGIC_VERSION, shown=shown)


def _published(
    blobs: Blobs, conversations: Iterable[Conversation], duplicates: int
) -> tuple[Artifact, ConversationsBody]:
    """The conversations in the order of their digests, each once; so many duplicates were left out before."""
    by_digest, read = dict[str, Conversation](), duplicates
    for each in conversations:
        by_digest[each.digest] = each
        read += 1
    lines = linefiles.write(blobs, LINES, (by_digest[digest] for digest in sorted(by_digest)))
    body = ConversationsBody(lines, {LAYOUT: read}, {}, read - len(by_digest))
    manifest = body.manifest(producer=version.producer("annotation"))
    return publish(blobs, "annotation", manifest, data_bytes=lines.bytes), body
