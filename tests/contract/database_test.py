"""What every database promises, with the same test ids on every adapter."""

import contextlib
import gc
import random
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pytest
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from tutti.backbone import Database, Isolation, Transaction
from tutti.backbone.database import Conflict, Contention, DatabaseUnavailable
from tutti.backbone.transactions import AbortedTransaction, NestedTransaction, SerializationFailure

WAIT = 30.0
metadata = MetaData()
accounts = Table(
    "accounts", metadata, Column("name", String, primary_key=True), Column("balance", Integer, nullable=False)
)
tasks = Table(
    "tasks", metadata, Column("id", Integer, primary_key=True), Column("holder", String), Column("body", LargeBinary)
)
notes = Table(
    "notes",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("text", Text),
    Column("Code", String(20), nullable=False, unique=True),
    Column("small", Integer),
    Column("big", BigInteger),
    Column("share", Float),
    Column("on", Boolean),
    Column("body", LargeBinary),
)
parts = Table(
    "parts", metadata, Column("id", Integer, primary_key=True), Column("task", ForeignKey("tasks.id"), nullable=False)
)


def give_up() -> None:
    raise ValueError("give up")


class Place(Protocol):
    """A database of one adapter, and what the suite may do to it (conftest.py)."""

    db: Database
    overlaps: bool

    def client(self) -> Database: ...

    def neighbour(self) -> Database: ...

    def unreachable(self) -> Database: ...

    def crash(self, metadata: MetaData) -> None: ...


@pytest.fixture
def place(database_place: Place) -> Place:
    database_place.db.create(metadata)
    return database_place


@pytest.fixture
def db(place: Place) -> Database:
    return place.db


def open_account(db: Database, name: str, balance: int) -> None:
    db.run(lambda tx: tx.execute(insert(accounts), {"name": name, "balance": balance}) and None)


def balances(db: Database) -> dict[str, int]:
    return db.run(lambda tx: {row.name: row.balance for row in tx.execute(select(accounts))})


def balance_of(tx: Transaction, name: str) -> int:
    found: int = tx.execute(select(accounts.c.balance).where(accounts.c.name == name)).scalar_one()
    return found


def set_balance(tx: Transaction, name: str, balance: int) -> None:
    tx.execute(update(accounts).where(accounts.c.name == name).values(balance=balance))


def at_once(*works: Callable[[], Any]) -> list[BaseException | None]:
    """Run all, each in its own thread; what each raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        return [future.exception(WAIT) for future in [pool.submit(work) for work in works]]


class Meeting:
    """Lets two transactions overlap where the database allows it, in their first run only."""

    def __init__(self, *, together: bool) -> None:
        self._barrier = threading.Barrier(2) if together else None

    def wait(self) -> None:
        if self._barrier is not None and not self._barrier.broken:
            try:
                self._barrier.wait(2)
            except threading.BrokenBarrierError:
                return
            self._barrier.abort()


def test_what_fn_did_is_committed_and_its_result_returned(db: Database) -> None:
    assert db.run(lambda tx: tx.execute(insert(accounts), {"name": "a", "balance": 5}).rowcount) == 1
    assert balances(db) == {"a": 5}


def test_an_error_undoes_everything_and_goes_on(db: Database) -> None:
    def work(tx: Transaction) -> None:
        tx.execute(insert(accounts), {"name": "a", "balance": 5})
        give_up()

    with pytest.raises(ValueError, match="give up"):
        db.run(work)
    assert balances(db) == {}


def test_many_rows_go_in_one_statement(db: Database) -> None:
    rows = [{"id": n, "body": bytes([n])} for n in range(100)]
    db.run(lambda tx: tx.execute(insert(tasks), rows) and None)
    found = db.run(lambda tx: tx.execute(select(tasks.c.id, tasks.c.body).order_by(tasks.c.id)).all())
    assert [(row.id, row.body) for row in found] == [(n, bytes([n])) for n in range(100)]


def noted(tx: Transaction) -> list[tuple[Any, ...]]:
    return [tuple(row)[1:] for row in tx.execute(select(notes).order_by(notes.c.number)).all()]


TEXTS = ["", "a\tb", "line\nend\\.", "\\N", "\u20ac \U0001f600", "x" * 70_000, 'quo"te', None]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 1000])
def test_inserted_rows_are_numbered_in_their_order_and_hold_what_they_were_given(db: Database, count: int) -> None:
    rows = [
        {
            "text": TEXTS[n % len(TEXTS)],
            "Code": f"c{n}",
            "small": -n,
            "big": (1 << 62) - n,
            "share": n / 3,
            "on": n % 2 == 0,
            "body": bytes(range(n % 256)),
        }
        for n in range(count)
    ]
    db.run(lambda tx: tx.insert(notes, rows))
    assert db.run(noted) == [tuple(row.values()) for row in rows]


@pytest.mark.parametrize("count", [2, 200])
@pytest.mark.parametrize("wrong", [{"Code": "c0"}, {"Code": None}])
def test_rows_of_which_one_is_refused_are_a_conflict_and_none_is_there(
    db: Database, count: int, wrong: dict[str, Any]
) -> None:
    rows: list[dict[str, Any]] = [{"Code": f"c{n}"} for n in range(count)]

    def work(tx: Transaction) -> int:
        tx.insert(notes, rows)
        with pytest.raises(Conflict):
            tx.savepoint(lambda: tx.insert(notes, [*({"Code": f"d{n}"} for n in range(count)), wrong]))
        return len(noted(tx))

    assert db.run(work) == count


def test_after_refused_rows_nothing_more_can_be_done(db: Database) -> None:
    def work(tx: Transaction) -> None:
        with contextlib.suppress(Conflict):
            tx.insert(notes, [{"Code": "same"}] * 20)
        tx.execute(select(notes))

    with pytest.raises(AbortedTransaction):
        db.run(work)


def test_rowcount_tells_whether_an_insert_wrote(db: Database) -> None:
    def put(tx: Transaction) -> int:
        return tx.execute(upsert(tx)(accounts).values(name="a", balance=1).on_conflict_do_nothing()).rowcount

    def upsert(tx: Transaction) -> Any:
        return postgresql.insert if tx.skip_locked else sqlite.insert

    assert [db.run(put), db.run(put)] == [1, 0]


def test_a_constraint_is_a_conflict(db: Database) -> None:
    open_account(db, "a", 1)
    with pytest.raises(Conflict):
        open_account(db, "a", 2)
    assert balances(db) == {"a": 1}


def test_foreign_keys_are_enforced(db: Database) -> None:
    with pytest.raises(Conflict):
        db.run(lambda tx: tx.execute(insert(parts), {"id": 1, "task": 99}) and None)


def test_a_wrong_statement_is_its_authors_error(db: Database) -> None:
    with pytest.raises(DBAPIError, match="nothing_here"):
        db.run(lambda tx: tx.execute(select(Table("nothing_here", MetaData(), Column("x", Integer)))).all())


def test_a_savepoint_undoes_only_its_own(db: Database) -> None:
    def work(tx: Transaction) -> None:
        tx.execute(insert(accounts), {"name": "before", "balance": 1})

        def inner() -> None:
            tx.execute(insert(accounts), {"name": "inside", "balance": 1})
            give_up()

        with pytest.raises(ValueError, match="give up"):
            tx.savepoint(inner)
        assert tx.savepoint(lambda: balance_of(tx, "before")) == 1
        tx.execute(insert(accounts), {"name": "after", "balance": 1})

    db.run(work)
    assert set(balances(db)) == {"before", "after"}


def test_savepoints_nest(db: Database) -> None:
    def add(tx: Transaction, name: str) -> None:
        tx.execute(insert(accounts), {"name": name, "balance": 1})

    def work(tx: Transaction) -> None:
        def inner() -> None:
            add(tx, "inner")
            add(tx, "inner")

        def outer() -> None:
            add(tx, "outer")
            with pytest.raises(Conflict):
                tx.savepoint(inner)
            add(tx, "outer2")

        tx.savepoint(outer)

    db.run(work)
    assert set(balances(db)) == {"outer", "outer2"}


def test_a_conflict_inside_a_savepoint_leaves_the_transaction_usable(db: Database) -> None:
    open_account(db, "a", 1)

    def work(tx: Transaction) -> None:
        with pytest.raises(Conflict):
            tx.savepoint(lambda: tx.execute(insert(accounts), {"name": "a", "balance": 2}))
        tx.execute(insert(accounts), {"name": "b", "balance": 2})

    db.run(work)
    assert balances(db) == {"a": 1, "b": 2}


def test_after_a_failed_statement_nothing_is_committed_though_fn_swallows_it(db: Database) -> None:
    open_account(db, "a", 1)

    def work(tx: Transaction) -> None:
        tx.execute(insert(accounts), {"name": "b", "balance": 2})
        with pytest.raises(Conflict):
            tx.execute(insert(accounts), {"name": "a", "balance": 2})

    with pytest.raises(AbortedTransaction, match="savepoint"):
        db.run(work)

    def and_goes_on(tx: Transaction) -> None:
        work(tx)
        tx.execute(insert(accounts), {"name": "c", "balance": 2})

    with pytest.raises(AbortedTransaction):
        db.run(and_goes_on)
    assert balances(db) == {"a": 1}


def test_hooks_run_once_after_the_commit_in_the_callers_thread(db: Database) -> None:
    seen: list[tuple[dict[str, int], threading.Thread]] = []

    def work(tx: Transaction) -> None:
        tx.on_commit(lambda: seen.append((balances(db), threading.current_thread())))
        tx.execute(insert(accounts), {"name": "a", "balance": 5})
        assert seen == []

    db.run(work)
    assert seen == [({"a": 5}, threading.current_thread())]


def test_hooks_of_what_was_undone_never_run(db: Database) -> None:
    ran: list[str] = []

    def undone(tx: Transaction) -> None:
        tx.on_commit(lambda: ran.append("transaction"))
        give_up()

    def kept(tx: Transaction) -> None:
        def inner() -> None:
            tx.on_commit(lambda: ran.append("savepoint"))
            give_up()

        tx.on_commit(lambda: ran.append("kept"))
        with pytest.raises(ValueError, match="give up"):
            tx.savepoint(inner)

    with pytest.raises(ValueError, match="give up"):
        db.run(undone)
    db.run(kept)
    assert ran == ["kept"]


def test_what_a_hook_refers_to_is_freed_with_its_transaction_without_a_garbage_collection(db: Database) -> None:
    class Unit:
        def __init__(self, tx: Transaction) -> None:
            self.tx = tx

        def told(self) -> None:
            ran.append("told")

    def work(tx: Transaction) -> "weakref.ref[Unit]":
        unit = Unit(tx)
        tx.on_commit(unit.told)
        return weakref.ref(unit)

    ran: list[str] = []
    gc.disable()
    try:
        assert db.run(work)() is None
    finally:
        gc.enable()
    assert ran == ["told"]


def test_a_failing_hook_does_not_undo_the_commit(db: Database) -> None:
    ran: list[str] = []

    def work(tx: Transaction) -> None:
        tx.execute(insert(accounts), {"name": "a", "balance": 5})
        tx.on_commit(give_up)
        tx.on_commit(lambda: ran.append("next"))

    db.run(work)
    assert (balances(db), ran) == ({"a": 5}, ["next"])


def test_a_transaction_inside_a_transaction_is_refused(db: Database) -> None:
    with pytest.raises(NestedTransaction):
        db.run(lambda tx: db.run(lambda inner: None))


def test_tx_is_refused_after_its_end(db: Database) -> None:
    kept: list[Transaction] = []
    db.run(kept.append)
    with pytest.raises(AbortedTransaction, match="over"):
        kept[-1].execute(select(accounts))


def test_a_lost_run_is_run_again(place: Place, db: Database) -> None:
    """Eight clients add one to the same row, reading before they write."""
    open_account(db, "a", 0)
    clients = [place.client() for _ in range(8)]

    def add(client: Database) -> None:
        for _ in range(5):
            client.run(lambda tx: set_balance(tx, "a", balance_of(tx, "a") + 1))

    assert at_once(*(lambda client=client: add(client) for client in clients)) == [None] * 8
    assert balances(db) == {"a": 40}


def test_write_skew_is_refused_under_serializable(place: Place, db: Database) -> None:
    """Each takes from one account what both allow together: only one may."""
    open_account(db, "a", 50)
    open_account(db, "b", 50)
    meeting = Meeting(together=place.overlaps)

    def withdraw(client: Database, name: str) -> None:
        def work(tx: Transaction) -> None:
            total = balance_of(tx, "a") + balance_of(tx, "b")
            meeting.wait()
            if total >= 100:
                set_balance(tx, name, balance_of(tx, name) - 100)

        client.run(work)

    one, two = place.client(), place.client()
    assert at_once(lambda: withdraw(one, "a"), lambda: withdraw(two, "b")) == [None, None]
    assert sorted(balances(db).values()) == [-50, 50]


@pytest.mark.parametrize("swallows", [False, True])
def test_a_lost_update_is_refused_under_serializable(place: Place, db: Database, swallows: bool) -> None:
    """Also when fn catches everything, as a handler does around a poison event: the run is lost all the same."""
    open_account(db, "a", 0)
    meeting = Meeting(together=place.overlaps)

    def add(client: Database) -> None:
        def work(tx: Transaction) -> None:
            found = balance_of(tx, "a")
            meeting.wait()
            with contextlib.suppress(*([Exception] if swallows else [])):
                tx.savepoint(lambda: set_balance(tx, "a", found + 1))

        client.run(work)

    one, two = place.client(), place.client()
    assert at_once(lambda: add(one), lambda: add(two)) == [None, None]
    assert balances(db) == {"a": 2}


def test_a_transaction_that_always_loses_is_given_up(db: Database) -> None:
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(1)
        raise SerializationFailure("always")

    with pytest.raises(Contention, match="nothing was written"):
        db.run(work)
    assert len(runs) > 10


def test_claims_under_read_committed_give_each_row_to_one_client(place: Place, db: Database) -> None:
    db.run(lambda tx: tx.execute(insert(tasks), [{"id": n} for n in range(60)]) and None)

    def claim(client: Database, holder: str) -> None:
        def work(tx: Transaction) -> bool:
            free = select(tasks.c.id).where(tasks.c.holder.is_(None)).order_by(tasks.c.id).limit(1)
            found = tx.execute(free.with_for_update(skip_locked=tx.skip_locked)).scalar()
            if found is None:
                return False
            tx.execute(update(tasks).where(tasks.c.id == found).values(holder=holder))
            claims.append(found)
            return True

        claims: list[int] = []
        while client.run(work, isolation=Isolation.READ_COMMITTED):
            continue

    clients = [place.client() for _ in range(6)]
    assert at_once(*(lambda n=n, c=c: claim(c, f"c{n}") for n, c in enumerate(clients))) == [None] * 6
    held = db.run(lambda tx: tx.execute(select(func.count()).where(tasks.c.holder.is_not(None))).scalar_one())
    assert held == 60


def test_a_fence_by_update_lets_one_of_many_through(place: Place, db: Database) -> None:
    open_account(db, "epoch", 1)
    passed: list[int] = []

    def advance(client: Database, n: int) -> None:
        def work(tx: Transaction) -> int:
            fence = update(accounts).where(accounts.c.name == "epoch", accounts.c.balance == 1).values(balance=2)
            return tx.execute(fence).rowcount

        if client.run(work, isolation=Isolation.READ_COMMITTED):
            passed.append(n)

    clients = [place.client() for _ in range(6)]
    assert at_once(*(lambda n=n, c=c: advance(c, n) for n, c in enumerate(clients))) == [None] * 6
    assert len(passed) == 1


def test_create_is_idempotent_and_safe_from_several_clients(place: Place) -> None:
    more = MetaData()
    Table("later", more, Column("id", Integer, primary_key=True))
    clients = [place.client() for _ in range(6)]
    assert at_once(*(lambda c=c: c.create(more) for c in clients)) == [None] * 6
    assert at_once(*(lambda c=c: c.create(metadata) for c in clients)) == [None] * 6


def test_two_services_do_not_see_each_others_tables(place: Place, db: Database) -> None:
    with closing(place.neighbour()) as other:
        other.create(metadata)
        open_account(other, "theirs", 1)
        assert balances(db) == {}


def test_now_is_utc_and_close_to_ours(db: Database) -> None:
    found = db.run(lambda tx: tx.now())
    assert found.tzinfo is not None
    assert found.utcoffset() == timedelta(0)
    assert abs(found - datetime.now(UTC)) < timedelta(minutes=5)


def test_what_was_committed_survives_kill_9_and_nothing_else(place: Place) -> None:
    place.crash(metadata)
    assert balances(place.db) == {"kept": 1}


def test_a_database_that_cannot_be_had_says_so_in_time(place: Place) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"in use by process|127\.0\.0\.1:9"):
        place.unreachable().run(lambda tx: None)


def test_a_closed_database_refuses(db: Database) -> None:
    db.close()
    db.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        db.run(lambda tx: None)


def test_random_transfers_by_many_clients_keep_the_sum(place: Place, db: Database) -> None:
    names = ["a", "b", "c", "d"]
    for name in names:
        open_account(db, name, 100)

    def transfer(client: Database, seed: int) -> None:
        chosen = random.Random(seed)
        for _ in range(8):
            source, target = chosen.sample(names, 2)

            def work(tx: Transaction, source: str = source, target: str = target) -> None:
                set_balance(tx, source, balance_of(tx, source) - 1)
                set_balance(tx, target, balance_of(tx, target) + 1)

            client.run(work)

    clients = [place.client() for _ in range(4)]
    assert at_once(*(lambda n=n, c=c: transfer(c, n) for n, c in enumerate(clients))) == [None] * 4
    assert sum(balances(db).values()) == 400
