"""The facts of campaigns and preferences, which are emitted for readers outside the platform. Pure.

Promises: they have counts, keys and digests, and neither a text nor a score; an annotator is named by the key in the
campaign.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from tutti.annotation.judging.judgements import JudgementKind
from tutti.contracts.annotation.v1 import (
    CROWD_IMPORTED,
    CROWD_SIMULATED,
    Campaign,
    JudgementsAccepted,
    Preferences,
    PreferencesPublished,
)
from tutti.records.canonical import content_digest


def accepted(campaign: Campaign, said: Mapping[str, str]) -> JudgementsAccepted:
    """The fact that judgements were accepted together; `said` has the JudgementKind of each, by its id."""
    counts = Counter(said.values())
    return JudgementsAccepted(
        campaign=campaign.name,
        round=campaign.round,
        judged=counts[JudgementKind.JUDGED],
        skipped=counts[JudgementKind.SKIPPED],
        flagged=counts[JudgementKind.FLAGGED],
        digest=content_digest(sorted(said), kind="judgements"),
        simulated=campaign.spec.crowd == CROWD_SIMULATED,
        imported=campaign.spec.crowd == CROWD_IMPORTED,
    )


def published(preferences: Preferences, judgement_sets: Sequence[str]) -> PreferencesPublished:
    """The fact that preferences are done; `judgement_sets` are the digests of what was fitted."""
    return PreferencesPublished(
        preferences=preferences.name,
        content_digest=preferences.result.content_digest,
        judgement_sets=judgement_sets,
        pairs=preferences.pairs,
        judgements=preferences.judgements,
        annotators=preferences.annotators,
        simulated=preferences.simulated,
        imported=preferences.imported,
    )
