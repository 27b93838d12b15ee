"""What people read has words for every short name that services give."""

from tutti.ingest.crawl.frontier import State
from tutti.ingest.crawl.scope import ExclusionReason
from tutti.ingest.crawl.visiting import Outcome
from tutti.ingest.reading.rejections import Reason
from tutti.report.outcomes import outcome, reason


def test_what_became_of_a_url_has_words() -> None:
    names = [f"visited/{each}" for each in Outcome] + [f"left/{each}" for each in ExclusionReason]
    names += [each.name.lower() for each in (State.FOUND, State.WAITING)]
    assert [name for name in names if not outcome(name)] == []
    assert outcome("visited/something") == ""


def test_why_a_page_was_left_out_has_words() -> None:
    assert [each for each in Reason if not reason(each)] == []
    assert reason("gopher_least_words") == ""
