"""Checks of a campaign's spec, before anything is recorded."""

import re
from collections.abc import Sequence

from tutti.annotation.judging.pairs import Line
from tutti.annotation.judging.simulated import crowd_in
from tutti.chassis.enums import named
from tutti.chassis.errors import InvalidField
from tutti.contracts.annotation.v1 import (
    CROWD_IMPORTED,
    CROWD_PEOPLE,
    CROWD_SIMULATED,
    Campaign,
    CampaignSpec,
    Crowd,
    ExtendCampaignRequest,
)
from tutti.corpus.conversations.conversations import InvalidConversation, from_lines
from tutti.corpus.conversations.labels import ANNOTATOR_NAME

LOGIC_VERSION = "campaign-2"
LONGEST_GUIDELINE, LONGEST_RULE, LONGEST_REASON = 64 << 10, 1000, 500
MOST_AXES, MOST_OVERLAP, MOST_JUDGEMENTS, MOST_ANNOTATORS, MOST_SOURCES = 8, 100, 10_000_000, 1000, 64
MOST_PAIR_BYTES = 3 << 20
DEFAULT_CONTROLS, MOST_CONTROLS = 0.1, 0.5
DEFAULT_QUALIFICATION = (5, 4)
MOST_QUALIFYING = 50
MOST_SEED = 1 << 53
MOST_DEADLINE = 366 * 24 * 3600
CROWDS = (CROWD_PEOPLE, CROWD_SIMULATED, CROWD_IMPORTED)
IMPORTED_ALONE = "judgements for each pair of an imported crowd, and none for another one"
AXIS = re.compile(r"[a-z][a-z0-9_-]{0,39}")
SAMPLE = re.compile(r"samples/[^\0]{1,390}")


def check_campaign(spec: CampaignSpec) -> None:
    """Raises InvalidField naming what cannot work."""
    if spec.logic_version not in ("", LOGIC_VERSION):
        raise InvalidField("spec.logic_version", seen=spec.logic_version, expected=f"{LOGIC_VERSION} or empty")
    _check_sources(spec)
    lines_in(spec.pairs, "spec.pairs")
    _check_labels(spec)
    for line in lines_in(spec.qualifying, "spec.qualifying"):
        if not line.better:
            raise InvalidField("spec.qualifying", seen="a line without `better`", expected="first, second or equal")
    check_guideline(spec.guideline, "spec.guideline")
    names = [axis.name for axis in spec.axes]
    overlap, rule = spec.overlap, spec.qualification
    for field, holds, seen, expected in (
        ("axes", 0 < len(names) <= MOST_AXES, len(names), f"1 to {MOST_AXES} axes"),
        ("axes", len(set(names)) == len(names), names, "each name once"),
        ("axes", all(AXIS.fullmatch(name) for name in names), names, "names of a-z, 0-9, _ and -"),
        (
            "axes",
            all(len(axis.rule) <= LONGEST_RULE for axis in spec.axes),
            "a rule",
            f"at most {LONGEST_RULE} characters",
        ),
        ("overlap.least", overlap.least <= MOST_OVERLAP, overlap.least, f"at most {MOST_OVERLAP}"),
        ("overlap.most", overlap.most <= MOST_OVERLAP, overlap.most, f"at most {MOST_OVERLAP}"),
        (
            "overlap.most",
            not overlap.most or overlap.most >= (overlap.least or 1),
            overlap.most,
            f"at least {overlap.least or 1}, the least of each pair",
        ),
        ("controls", 0 <= spec.controls < MOST_CONTROLS, spec.controls, f"a share below {MOST_CONTROLS:g}"),
        ("judgements", spec.judgements <= MOST_JUDGEMENTS, spec.judgements, f"at most {MOST_JUDGEMENTS:,}"),
        ("warning", len(spec.warning) <= LONGEST_RULE, "a warning", f"at most {LONGEST_RULE} characters"),
        ("filler", len(spec.filler) <= LONGEST_RULE, "a filler", f"at most {LONGEST_RULE} characters"),
        (
            "deadline_seconds",
            spec.deadline_seconds <= MOST_DEADLINE,
            spec.deadline_seconds,
            f"at most {MOST_DEADLINE:,}, a year; 0 for none",
        ),
        ("seed", spec.seed < MOST_SEED, spec.seed, "below 2^53"),
        ("qualification.pairs", rule.pairs <= MOST_QUALIFYING, rule.pairs, f"at most {MOST_QUALIFYING}"),
        ("qualification.right", rule.right <= rule.pairs, rule.right, f"at most {rule.pairs}, the pairs that count"),
    ):
        if not holds:
            raise InvalidField(f"spec.{field}", seen=seen, expected=expected)
    _check_crowd(spec)


def filled(spec: CampaignSpec) -> CampaignSpec:
    """The spec with what it leaves to us."""
    found = CampaignSpec()
    found.CopyFrom(spec)
    found.logic_version = LOGIC_VERSION
    found.overlap.least = spec.overlap.least or 1
    found.overlap.most = spec.overlap.most or found.overlap.least
    if not spec.HasField("controls"):
        found.controls = DEFAULT_CONTROLS
    if not spec.HasField("qualification"):
        found.qualification.pairs, found.qualification.right = DEFAULT_QUALIFICATION
    return found


def extended(campaign: Campaign, request: ExtendCampaignRequest) -> None:
    """Change the numbers of a campaign whose pairs exist. Raises InvalidField for one that is lower than before."""
    spec = campaign.spec
    most = request.most or spec.overlap.most
    pairs = campaign.pairs - campaign.settled_out
    reachable = pairs * most
    for field, least, greatest, why in (
        ("most", spec.overlap.most, MOST_OVERLAP, ""),
        ("judgements", campaign.wanted, reachable, f" ({most} for each of {pairs:,} pairs)"),
        ("deadline_seconds", spec.deadline_seconds, MOST_DEADLINE, " (a year)"),
    ):
        given = getattr(request, field)
        if given and not least <= given <= greatest:
            expected = f"{least:,} (as it is now) to {greatest:,}{why}"
            raise InvalidField(field, seen=given, expected=expected)
    spec.overlap.most = most
    if request.judgements:
        spec.judgements = campaign.wanted = request.judgements
    if request.deadline_seconds:
        spec.deadline_seconds = request.deadline_seconds


def check_guideline(text: str, field: str) -> None:
    """Raises InvalidField."""
    size = len(text.encode())
    if not text.strip() or size > LONGEST_GUIDELINE:
        raise InvalidField(field, seen=f"{size} bytes", expected=f"1 to {LONGEST_GUIDELINE} bytes of text")


def check_reason(reason: str) -> str:
    """The reason without white space around it. Raises InvalidField."""
    if len(reason) > LONGEST_REASON:
        raise InvalidField("reason", seen=f"{len(reason)} characters", expected=f"at most {LONGEST_REASON} characters")
    return reason.strip()


def lines_in(text: str, field: str) -> Sequence[Line]:
    """Raises InvalidField."""
    if len(text.encode()) > MOST_PAIR_BYTES:
        raise InvalidField(field, seen=f"{len(text.encode())} bytes", expected=f"at most {MOST_PAIR_BYTES} bytes")
    try:
        return list(from_lines(Line, text.encode()))
    except InvalidConversation as error:
        raise InvalidField(field, seen=str(error), expected="JSON lines with `prompt` and `answers`") from error


def _check_sources(spec: CampaignSpec) -> None:
    if bool(spec.answers) == bool(spec.pairs):
        raise InvalidField("spec.answers", seen=len(spec.answers), expected="samples or pairs: one of them")
    if len(spec.answers) > MOST_SOURCES:
        raise InvalidField("spec.answers", seen=len(spec.answers), expected=f"at most {MOST_SOURCES} samples")
    for source in spec.answers:
        if not SAMPLE.fullmatch(source.sample):
            raise InvalidField("spec.answers.sample", seen=source.sample, expected="a name samples/ID")
        if not source.manifest_key or not source.content_digest:
            raise InvalidField("spec.answers.manifest_key", seen="nothing", expected="the key and digest of its result")


def _check_labels(spec: CampaignSpec) -> None:
    """Each pair of an imported campaign has judgements on its axes, and no pair of another one has any."""
    lines, axes = lines_in(spec.pairs, "spec.pairs"), {axis.name for axis in spec.axes}
    annotators = set[str]()
    for number, line in enumerate(lines, 1):
        keys = [each.annotator for each in line.labels]
        annotators |= set(keys)
        for holds, seen, expected in (
            (bool(keys) == (spec.crowd == CROWD_IMPORTED), f"{len(keys)} judgements", IMPORTED_ALONE),
            (len(keys) <= MOST_OVERLAP, f"{len(keys)} judgements", f"at most {MOST_OVERLAP} of a pair"),
            (len(set(keys)) == len(keys), "an annotator twice", "at most one judgement of a pair by each annotator"),
            (all(ANNOTATOR_NAME.fullmatch(key) for key in keys), "an annotator", "1 to 40 of A-Z, a-z, 0-9, _ and -"),
            (all(each.scores.keys() == axes for each in line.labels), "other axes", f"scores of {', '.join(axes)}"),
        ):
            if not holds:
                raise InvalidField(f"spec.pairs: line {number}", seen=seen, expected=expected)
    if len(annotators) > MOST_ANNOTATORS:
        raise InvalidField("spec.pairs", seen=f"{len(annotators)} annotators", expected=f"at most {MOST_ANNOTATORS}")


def _check_crowd(spec: CampaignSpec) -> None:
    simulated = spec.simulated
    if spec.crowd not in CROWDS:
        expected = ", ".join(named(Crowd, each) for each in CROWDS)
        raise InvalidField("spec.crowd", seen=named(Crowd, spec.crowd), expected=f"one of {expected}")
    if spec.crowd != CROWD_SIMULATED and spec.HasField("simulated"):
        raise InvalidField("spec.simulated", seen="a simulated crowd", expected="none for another crowd")
    if spec.crowd == CROWD_SIMULATED and not 0 < simulated.annotators <= MOST_ANNOTATORS:
        raise InvalidField("spec.simulated.annotators", seen=simulated.annotators, expected=f"1 to {MOST_ANNOTATORS}")
    if spec.crowd == CROWD_SIMULATED:
        crowd_in(simulated.crowd)
    most = max(spec.overlap.most, spec.overlap.least, 1)
    if spec.crowd == CROWD_SIMULATED and simulated.annotators < most:
        raise InvalidField(
            "spec.simulated.annotators", seen=simulated.annotators, expected=f"at least {most}, the overlap of a pair"
        )
