"""The estimates of a campaign's annotators: those of its newest preferences, or else of a live fit.

Promises: a live fit is computed as preferences are, from scratch and in canonical order, so that equal judgements give
equal estimates. A task computes it, and no request waits for it: a campaign is fitted again if a judgement has arrived
since its last fit, but not within `SPACING_SECONDS`, nor before `SPACING` times the duration of that fit; in addition,
when its owner changes what counts, and when it closes. Live fits are derived, so a campaign never fails with one.
Imported judgements have none, because they arrive at once.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import select

from tutti.annotation.campaigns.collecting import UNDER_WAY, collected, excluded
from tutti.annotation.judging.rows import Rows
from tutti.annotation.publishing import fitting, preferring, weighing
from tutti.annotation.publishing.fitting import RELIABILITY, Fitted
from tutti.backbone import Isolation
from tutti.chassis.service import Host, TaskKind
from tutti.chassis.store.statements import upsert
from tutti.chassis.store.tables import from_micros, micros
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import Finish, Retry, Task, TaskContext
from tutti.chassis.work.work import Work
from tutti.contracts.annotation.v1 import CROWD_IMPORTED, Annotator, Campaign, FitSource, Preferences
from tutti.contracts.common.v1 import STATE_DONE

ESTIMATES = "campaign-estimates"
SPACING_SECONDS = 20.0
SPACING = 20
"""So many times its duration passes from a live fit to the next one: at most 5 % of a processor fits a campaign."""
NOTHING = "every estimate: no judgement can be fitted yet"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LiveFit:
    """The last live fit of a campaign. `number` counts them, `fitted_at` and the arrival of the `newest` judgement are
    in microseconds, `seconds` is the duration. `body` has the estimates as JSON, in the layout of preferences.
    """

    number: int
    fitted_at: int
    newest: int
    seconds: float
    body: str


class Estimates:
    def __init__(self, host: Host, rows: Rows, preferences: Work[Preferences]) -> None:
        self._host, self._rows, self._preferences = host, rows, preferences.resource
        self._table = rows.tables.live_fits

    def task(self) -> TaskKind:
        return TaskKind(name=ESTIMATES, run=self._run, on_failed=self._failed)

    def look(self, unit: Unit, campaign: Campaign) -> None:
        """Fit a campaign if it is time and a judgement has arrived."""
        last, newest = self._last(unit, campaign.name), 0
        if last is not None:
            seconds, newest = (micros(unit.now) - last.fitted_at) / 1e6, last.newest
            if seconds < max(SPACING_SECONDS, SPACING * last.seconds):
                return
        if self._rows.newest(unit, campaign.name) > newest:
            self._enqueue(unit, campaign.name, last)

    def renew(self, unit: Unit, campaign: Campaign) -> None:
        """Fit a campaign, since what counts has changed, or since it takes no more judgements."""
        if campaign.spec.crowd != CROWD_IMPORTED and self._rows.newest(unit, campaign.name):
            self._enqueue(unit, campaign.name, self._last(unit, campaign.name))

    def add_to(self, annotators: Sequence[Annotator], campaign: str) -> FitSource | None:
        """Add the estimates to the annotators of a campaign; the source of them, None where there are none."""
        published, live = self._host.units.run(
            lambda unit: (self._published(unit, campaign), self._last(unit, campaign))
        )
        if published is not None:
            found = preferring.estimates(self._host.blobs, published, campaign)
            if found is None:
                return None
            source = FitSource(preferences=published.name, judgements=published.judgements)
            source.fitted_at.CopyFrom(published.ended_at)
        elif live is not None:
            body = json.loads(live.body)
            found, source = preferring.estimated(body), FitSource(judgements=body["judgements"])
            source.fitted_at.FromDatetime(from_micros(live.fitted_at))
        else:
            return None
        source.unidentified.extend(found.unidentified)
        for each in annotators:
            if (estimate := found.annotators.get(each.key)) is not None:
                each.MergeFrom(estimate)
        return source

    def version(self, unit: Unit, campaign: str) -> str:
        """A text that changes with the estimates."""
        last = self._last(unit, campaign)
        return f"{len(self._preferences.readable(unit, state=STATE_DONE).found)}.{last.number if last else 0}"

    def _published(self, unit: Unit, campaign: str) -> Preferences | None:
        """The newest preferences that were fitted to the judgements of a campaign; damaged ones may be of any other."""
        done = self._preferences.readable(unit, state=STATE_DONE).found
        fits = [each for each in done if preferring.fits(each, campaign)]
        return max(fits, key=lambda each: (each.ended_at.ToNanoseconds(), each.name), default=None)

    def _last(self, unit: Unit, campaign: str) -> LiveFit | None:
        table = self._table
        row = unit.tx.execute(select(table).where(table.c.campaign == campaign)).first()
        return LiveFit(row.number, row.fitted_at, row.newest, row.seconds, row.body) if row else None

    def _enqueue(self, unit: Unit, campaign: str, last: LiveFit | None) -> None:
        """A fit that waits already is not enqueued again: it reads what counts when it begins."""
        unit.enqueue(ESTIMATES, campaign, id=f"{campaign}/estimates/{last.number + 1 if last else 1}")

    def _run(self, context: TaskContext) -> Finish:
        name, began = context.task.resource, self._host.clock.monotonic()
        judged = self._host.units.run(
            lambda unit: collected(self._rows, unit, name), isolation=Isolation.READ_COMMITTED
        )
        context.check()
        values = {key: weight.value for key, weight in judged.found.weights.items()}
        pairs, said = weighing.counted((judged.found.pairs, judged.found.judgements), values)
        fitted: Fitted | None = None
        if said:
            axis = judged.campaign.spec.axes[0].name
            fitted = context.pool(fitting.estimated, pairs, said, axis, RELIABILITY, values)
        body = _body(fitted, NOTHING)
        seconds = self._host.clock.monotonic() - began

        def finish(unit: Unit) -> None:
            campaign = self._rows.tables.campaigns.get(unit, name)
            all_here = campaign.state in UNDER_WAY or self._rows.newest(unit, name) == judged.newest
            if not all_here or excluded(self._rows, unit, name) != judged.excluded:
                raise Retry("what counts has changed meanwhile", 0.1)
            self._keep(unit, name, judged.newest, seconds, body)

        return finish

    def _failed(self, unit: Unit, task: Task, reason: str) -> None:
        """Keep the last estimates; the next fit gets another id."""
        _log.error("%s has no new live fit: %s", task.resource, reason)
        last = self._last(unit, task.resource)
        body = last.body if last else _body(None, f"every estimate: {reason}")
        self._keep(unit, task.resource, last.newest if last else 0, 0.0, body)

    def _keep(self, unit: Unit, campaign: str, newest: int, seconds: float, body: str) -> None:
        last = self._last(unit, campaign)
        made = LiveFit(last.number + 1 if last else 1, micros(unit.now), newest, seconds, body)
        statement = upsert(self._table, unit.tx.skip_locked).values(campaign=campaign, **asdict(made))
        unit.tx.execute(statement.on_conflict_do_update(index_elements=["campaign"], set_=asdict(made)))


def _body(fitted: Fitted | None, otherwise: str) -> str:
    """The estimates of a fit as JSON; `otherwise` says why there is none."""
    return json.dumps(
        {
            "annotators": [each.to_json() for each in fitted.annotators] if fitted else [],
            "judgements": fitted.judgements if fitted else 0,
            "unidentified": list(fitted.unidentified) if fitted else [otherwise],
        }
    )
