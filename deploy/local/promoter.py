"""The promoter: starts a Postgres primary and its synchronous standby, and makes the standby primary when it must.

Promises: one server at most accepts writes; a standby is promoted only while it has every commit that a client was told
of; that it has not is recorded before commits stop waiting for it, and its promotion before it accepts writes. Killed
at any moment, it goes on from the record. Why not Patroni: that needs etcd, Consul or ZooKeeper beside it, which would
have to be kept alive here too, for two servers on one machine whose processes this one can fence with SIGKILL.

    python deploy/local/promoter.py --dir FOLDER          # started by servers.py and stack.py
"""

import argparse
import logging
import math
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from layout import DATABASES, Layout
from pair import Act, Patience, Record, Seen, decide
from postgres import STANDBY, Postgres
from processes import ServerError
from psycopg import sql
from servers import Stack

from tutti.backbone.backoff import Backoff
from tutti.backbone.postgres.connection import BoundedConnection, bounded

LOOK_SECONDS = 0.2
ANSWER_SECONDS = 3.0
AGAIN_SECONDS = 1.0
BACKOFF = Backoff(AGAIN_SECONDS, 60.0)
CONFIRM_SECONDS = 10.0
PATIENCE = Patience()
log = logging.getLogger("promoter")


class Promoter:
    def __init__(self, folder: Path) -> None:
        layout = Layout.read(folder)
        if layout is None:
            raise ServerError(
                f"{folder} has no pair of databases: `servers.py up --replicated --dir {folder}` makes one"
            )
        self._folder, self._layout = folder, layout
        self._stack = Stack(folder)
        self._pair = {name: Postgres(layout, number) for number, name in enumerate(DATABASES)}
        self._record = Record.read(folder)
        self._connection: BoundedConnection | None = None
        self._answered = self._streamed = time.monotonic()
        self._said_starts: dict[str, float] = {}
        self._making: threading.Thread | None = None
        self._make_after, self._made = 0.0, 0

    def run(self) -> None:
        """Until SIGTERM; the servers go on."""
        while True:
            try:
                self.step()
                time.sleep(LOOK_SECONDS)
            except (ServerError, psycopg.Error, OSError) as error:
                self._disconnect()
                log.error("%s; tried again", str(error).strip())
                time.sleep(AGAIN_SECONDS)

    def step(self) -> None:
        making = self._making is not None and self._making.is_alive()  # first, so that what it did is seen
        seen = self._look()
        now = time.monotonic()
        act = decide(
            self._record,
            seen,
            silent=now - self._answered,
            apart=now - self._streamed,
            patience=PATIENCE,
        )
        if act in (Act.START_STANDBY, Act.REMAKE_STANDBY) and (making or now < self._make_after):
            return
        if act is not Act.NOTHING:
            log.warning("term %d, primary %s: %s", self._record.term, self._record.primary, act.value)
            self._carry_out(act)

    def _look(self) -> Seen:
        record = self._record
        lives = {name: self._stack.is_alive(name) for name in DATABASES}
        recovers = streams = synchronous = answers = primary_starts = standby_starts = False
        if lives[record.primary]:
            with suppress(psycopg.Error):
                recovers, setting, state = self._asked(
                    "SELECT pg_is_in_recovery(), current_setting('synchronous_standby_names'), "
                    "(SELECT max(state) FROM pg_stat_replication WHERE application_name = %s)",
                    [STANDBY],
                )
                answers, synchronous = True, setting == STANDBY
                streams = state == "streaming" and lives[record.standby]
                self._answered = time.monotonic()
                if streams:
                    self._streamed, self._made = self._answered, 0
        # A server that hangs lets these questions wait for a second, so they are asked only when it matters.
        replaced = record.eligible and lives[record.standby]
        if lives[record.primary] and not answers and not replaced:
            primary_starts = self._starts(record.primary)
        if lives[record.standby] and time.monotonic() - self._streamed > PATIENCE.lost:
            standby_starts = self._starts(record.standby)
        return Seen(
            primary_lives=lives[record.primary],
            primary_starts=primary_starts,
            primary_answers=answers,
            primary_recovers=recovers,
            standby_lives=lives[record.standby],
            standby_starts=standby_starts,
            streams=streams,
            synchronous=synchronous,
        )

    def _starts(self, name: str) -> bool:
        """Return true if the server said in the last seconds that it recovers; a busy one may leave a question open."""
        if self._pair[name].recovers(self._pair[name].settings({})):
            self._said_starts[name] = time.monotonic()
        return time.monotonic() - self._said_starts.get(name, -math.inf) < PATIENCE.silent

    def _carry_out(self, act: Act) -> None:
        """Raises ServerError, psycopg.Error, OSError."""
        primary, standby = self._record.primary, self._record.standby
        if act is Act.PROMOTE:
            self._write(self._record.promoted())
            self._disconnect()
            self._pair[primary].fence(self._folder / primary, self._stack.process(primary))
            self._end_recovery()
        elif act is Act.END_RECOVERY:
            self._end_recovery()
        elif act is Act.START_PRIMARY:
            self._disconnect()
            self._pair[primary].fence(self._folder / primary, self._stack.process(primary))
            self._stack.launch(primary)
            self._answered = time.monotonic()
            time.sleep(AGAIN_SECONDS)  # one that dies at once is started again no faster than this
        elif act is Act.LET_GO:
            self._write(self._record.with_eligible(False))
            self._hold_commits(for_standby=False)
        elif act is Act.HOLD:
            self._hold_commits(for_standby=True)
        elif act is Act.CONFIRM:
            self._confirm()
        else:
            self._prepare()
            if act is Act.REMAKE_STANDBY:
                self._pair[standby].fence(self._folder / standby, self._stack.process(standby))
                self._pair[standby].forget(self._folder / standby)
            self._making = threading.Thread(target=self._make_standby, args=(standby,), daemon=True)
            self._making.start()

    def _make_standby(self, name: str) -> None:
        """In a thread, because a base backup takes as long as the copy of all data; the primary is watched meanwhile.
        The backup ends with its connection, so it outlives no primary."""
        try:
            self._stack.launch(name)
            self._streamed = time.monotonic()
        except (ServerError, OSError) as error:
            log.error("%s is not made: %s; tried again", name, str(error).strip())
        self._made += 1
        self._make_after = time.monotonic() + BACKOFF.longest(self._made)

    def _write(self, record: Record) -> None:
        record.write(self._folder)
        self._record = record

    def _end_recovery(self) -> None:
        """The recorded primary accepts writes; none waits for a standby that is not there yet."""
        self._hold_commits(for_standby=False)
        self._asked("SELECT pg_promote(true, 10)")
        self._answered = self._streamed = time.monotonic()
        log.warning("%s leads in term %d", self._record.primary, self._record.term)

    def _hold_commits(self, *, for_standby: bool) -> None:
        name = self._record.primary
        process = self._stack.process(name)
        if process is None:
            raise ServerError(f"{name} does not run")
        self._pair[name].hold_commits(self._folder / name, process, for_standby=for_standby)

    def _confirm(self) -> None:
        """Record that the standby is eligible once it has every commit that did not wait for it.

        Whether a commit waits is in shared memory, which the checkpointer writes when it reads the setting. A
        checkpoint that begins after the setting was read here ends after the checkpointer has read it too.
        """
        if self._asked("SELECT max(sync_state) FROM pg_stat_replication WHERE application_name = %s", [STANDBY])[0] != (
            "sync"
        ):
            return
        self._asked("CHECKPOINT", answers=False)
        (position,) = self._asked("SELECT pg_current_wal_flush_lsn()::text")
        deadline = time.monotonic() + CONFIRM_SECONDS
        while time.monotonic() < deadline:
            (has,) = self._asked(
                "SELECT coalesce(bool_or(flush_lsn >= %s::pg_lsn AND sync_state = 'sync'), false) "
                "FROM pg_stat_replication WHERE application_name = %s",
                [position, STANDBY],
            )
            if has:
                self._write(self._record.with_eligible(True))
                log.warning("%s has every commit and may replace %s", self._record.standby, self._record.primary)
                return
            time.sleep(LOOK_SECONDS / 4)

    def _prepare(self) -> None:
        """The role by which the standby replicates."""
        (there,) = self._asked("SELECT count(*) FROM pg_roles WHERE rolname = %s", [STANDBY])
        verb = sql.SQL("ALTER" if there else "CREATE")
        password = sql.Literal(self._layout.standby_password)
        statement = sql.SQL("{} ROLE {} REPLICATION LOGIN PASSWORD {}").format(verb, sql.Identifier(STANDBY), password)
        self._asked(statement, answers=False)

    def _asked(
        self, query: "sql.Composed | str", values: list[str] | None = None, *, answers: bool = True
    ) -> tuple[Any, ...]:
        """One row of the primary's. Raises psycopg.Error."""
        if self._connection is None or self._connection.closed:
            server = self._pair[self._record.primary]
            settings = server.settings({})
            self._connection = bounded(ANSWER_SECONDS).connect(
                host="127.0.0.1",
                port=settings["port"],
                user="tutti",
                password=settings["password"],
                dbname="postgres",
                connect_timeout=int(ANSWER_SECONDS),
                options="-c synchronous_commit=local",
                autocommit=True,
            )
        done = self._connection.execute(query, values)
        row: tuple[Any, ...] = (done.fetchone() or ()) if answers else ()
        return row

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def main() -> int:
    parser = argparse.ArgumentParser(prog="promoter.py", description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--dir", type=Path, required=True, help="the folder of the servers")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        Promoter(given.dir.resolve()).run()
    except ServerError as error:
        print(error, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
