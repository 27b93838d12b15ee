"""The record of a pair of Postgres servers: who is the primary, of which term, and whether the standby may replace it.

Promises: durable before it is acted upon; `eligible` is true only while each commit that a client was told of is on the
standby too; pure decisions, without I/O.
"""

import enum
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from layout import DATABASES

from tutti.backbone.files import RealFiles, make_folders, overwrite

FILE = "pair/record.json"


@dataclass(frozen=True)
class Record:
    term: int = 1
    primary: str = DATABASES[0]
    eligible: bool = False

    @classmethod
    def read(cls, folder: Path) -> "Record":
        """Return the record of the servers in a folder; that of a pair that was never started, if there is none."""
        try:
            return cls(**json.loads((folder / FILE).read_text()))
        except FileNotFoundError:
            return cls()

    def write(self, folder: Path) -> None:
        """Return when it is durable."""
        path, files = folder / FILE, RealFiles()
        make_folders(files, path.parent)
        overwrite(files, path.with_suffix(".new"), path, [json.dumps(asdict(self)).encode()])

    @property
    def standby(self) -> str:
        return next(name for name in DATABASES if name != self.primary)

    def promoted(self) -> "Record":
        """The standby leads the next term; nobody may replace it before the other one follows it."""
        return Record(self.term + 1, self.standby, eligible=False)

    def with_eligible(self, eligible: bool) -> "Record":
        return replace(self, eligible=eligible)


@dataclass(frozen=True)
class Seen:
    """`answers`: a query was answered in time; `starts`: it says that it is not ready yet, such as in crash recovery;
    `synchronous`: each commit waits for the standby."""

    primary_lives: bool
    primary_starts: bool
    primary_answers: bool
    primary_recovers: bool
    standby_lives: bool
    standby_starts: bool
    streams: bool
    synchronous: bool


class Act(enum.Enum):
    NOTHING = "nothing"
    START_PRIMARY = "start the primary"
    PROMOTE = "promote the standby"
    END_RECOVERY = "let the new primary accept writes"
    LET_GO = "let commits not wait for the standby"
    START_STANDBY = "start the standby"
    HOLD = "let commits wait for the standby"
    CONFIRM = "confirm that the standby has every commit"
    REMAKE_STANDBY = "make the standby anew"


def decide(record: Record, seen: Seen, *, silent: float, apart: float, patience: "Patience") -> Act:
    """The next act. `silent`: seconds since the primary answered; `apart`: seconds since the standby streamed."""
    if not seen.primary_lives or silent > patience.silent:
        if record.eligible and seen.standby_lives:
            return Act.PROMOTE
        # A restart would only begin its recovery again.
        return Act.NOTHING if seen.primary_lives and seen.primary_starts else Act.START_PRIMARY
    if not seen.primary_answers:
        return Act.NOTHING
    if seen.primary_recovers:
        return Act.END_RECOVERY
    if not seen.streams and (seen.synchronous or record.eligible):
        return Act.LET_GO if not seen.standby_lives or apart > patience.apart else Act.NOTHING
    if not seen.standby_lives:
        return Act.START_STANDBY
    if not seen.streams:
        lost = apart > (patience.starts if seen.standby_starts else patience.lost)
        return Act.REMAKE_STANDBY if lost else Act.NOTHING
    if not seen.synchronous:
        return Act.HOLD
    return Act.NOTHING if record.eligible else Act.CONFIRM


@dataclass(frozen=True)
class Patience:
    """Seconds: until a primary that does not answer counts as dead; until commits go on without a standby that does not
    stream; until such a standby is made anew; until then if it says that it starts."""

    silent: float = 10.0
    apart: float = 1.0
    lost: float = 30.0
    starts: float = 900.0
