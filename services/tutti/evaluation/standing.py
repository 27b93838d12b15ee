"""The standing of comparisons: active while what they rely on is unchanged, then stale with the reason.

Promises: a comparison relies on its samples, its reward model, and every set of judgements behind them, as they were
when it was made; one whose evidence changed becomes stale without being asked about. Its figures stay.
"""

from collections.abc import Iterable

from tutti.chassis.errors import NotFound
from tutti.chassis.service import Host
from tutti.chassis.store.clipping import clipped
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.reconciler import Reconciler, Trouble
from tutti.contracts.common.v1 import STATE_DONE
from tutti.contracts.evaluation.v1 import (
    STANDING_ACTIVE,
    STANDING_STALE,
    STANDING_UNSPECIFIED,
    Comparison,
    Evidence,
)
from tutti.evaluation import evidence
from tutti.evaluation.evidence import Find, Item
from tutti.evaluation.reliance import Relied

LOOK_SECONDS = 300.0
OPEN = (STANDING_UNSPECIFIED, STANDING_ACTIVE)


class Standings:
    """The loop that looks at comparisons; `find` asks owners for resources."""

    def __init__(self, host: Host, find: Find, relied: Relied, comparisons: Resource[Comparison]) -> None:
        self._host, self._find, self._relied, self._comparisons = host, find, relied, comparisons
        self.reconciler = Reconciler("comparisons", host, open=self._open, advance=self._look, tell=_tell)
        self.reconciler.look_every(LOOK_SECONDS)

    def _open(self, unit: Unit) -> Iterable[str]:
        done = self._comparisons.select(unit, state=int(STATE_DONE))
        return [each.name for each in done if each.standing in OPEN]

    def _look(self, name: str) -> None:
        known = self._host.units.run(lambda unit: self._comparisons.get(unit, name))
        if known.state != STATE_DONE or known.standing not in OPEN:
            return
        items = [Item(each.resource, each.digest) for each in known.evidence]
        why = ""
        if known.standing == STANDING_UNSPECIFIED:
            try:
                items = evidence.behind(self._find, known)
            except NotFound as error:
                why = f"{error.message} is gone"
        why = why or evidence.change(self._find, items)
        if not why and known.standing == STANDING_ACTIVE:
            return

        def stand(unit: Unit) -> None:
            found = self._comparisons.lock(unit, name)
            if found.standing != known.standing:
                return
            if found.standing == STANDING_UNSPECIFIED:
                found.evidence.extend(Evidence(resource=item.resource, digest=item.digest) for item in items)
            elif why:
                self._relied.forget(unit, name)
            found.standing = STANDING_STALE if why else STANDING_ACTIVE
            if why:
                found.reason = clipped(f"stale: {why}; run the recipe again")
            else:
                self._relied.keep(unit, name, items)
            self._comparisons.put(unit, found)

        self._host.units.run(stand)


def _tell(unit: Unit, name: str, trouble: Trouble | None) -> None:
    """Nothing: a comparison whose owners do not answer is looked at again, and stays what it was until they do."""
