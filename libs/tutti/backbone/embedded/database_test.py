"""What the embedded database adds to its port; the port itself is tested in tests/contract."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, LargeBinary, MetaData, Table, func, insert, select, text

from tutti.backbone.clock import ManualClock
from tutti.backbone.database import Contention, DatabaseDamaged, StorageFull, Transaction
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.backbone.randomness import SeededRandomness
from tutti.backbone.transactions import SqlTransaction

metadata = MetaData()
rows = Table("rows", metadata, Column("id", Integer, primary_key=True), Column("body", LargeBinary))


@pytest.fixture
def db(tmp_path: Path) -> Iterator[EmbeddedDatabase]:
    with closing(EmbeddedDatabase(tmp_path / "scheduler.db")) as opened:
        opened.create(metadata)
        yield opened


def count(db: EmbeddedDatabase) -> int:
    found: int = db.run(lambda tx: tx.execute(select(func.count()).select_from(rows)).scalar_one())
    return found


def test_databases_of_one_process_keep_their_rows_apart(db: EmbeddedDatabase, tmp_path: Path) -> None:
    with closing(EmbeddedDatabase(None)) as memory, closing(EmbeddedDatabase(tmp_path / "other.db")) as other:
        for each in (memory, other):
            each.create(metadata)
        db.run(lambda tx: tx.execute(insert(rows), [{"id": 1}, {"id": 2}]) and None)
        other.run(lambda tx: tx.execute(insert(rows), {"id": 1}) and None)
        assert (count(db), count(memory), count(other)) == (2, 0, 1)


def test_injected_failures_run_fn_again_and_follow_the_seed() -> None:
    def runs(seed: int) -> list[int]:
        attempts: list[int] = []
        with closing(
            EmbeddedDatabase(None, inline=True, failures=SeededRandomness(seed), failure_probability=0.3)
        ) as db:
            db.create(metadata)
            for n in range(40):
                tries = [0]

                def work(tx: Transaction, n: int = n, tries: list[int] = tries) -> None:
                    tries[0] += 1
                    tx.execute(insert(rows), {"id": n})

                db.run(work)
                attempts.append(tries[0])
            assert count(db) == 40
        return attempts

    assert runs(1) == runs(1)
    assert runs(1) != runs(2)
    assert max(runs(1)) > 1


def test_failures_without_end_are_contention() -> None:
    with closing(EmbeddedDatabase(None, failures=SeededRandomness(1), failure_probability=1.0)) as db:
        db.create(metadata)
        with pytest.raises(Contention):
            db.run(lambda tx: None)


def test_a_full_disk_is_named_and_undoes_the_transaction(tmp_path: Path, db: EmbeddedDatabase) -> None:
    db.run(lambda tx: tx.execute(text("PRAGMA max_page_count = 20")) and None)
    with pytest.raises(StorageFull, match=r"scheduler\.db.*free some space"):
        db.run(lambda tx: tx.execute(insert(rows), [{"id": n, "body": bytes(4000)} for n in range(50)]) and None)
    assert count(db) == 0
    db.run(lambda tx: tx.execute(insert(rows), {"id": 1}) and None)
    assert count(db) == 1


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.db"
    path.write_bytes(b"no database" * 1000)
    for _ in range(2):
        with pytest.raises(DatabaseDamaged, match=r"scheduler\.db.*restore"):
            EmbeddedDatabase(path)


def test_a_schema_whose_text_is_damaged_is_named(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.db"
    with closing(EmbeddedDatabase(path)) as db:
        db.create(metadata)
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE rows", b"CREATE \xacABLE rows"))
    with pytest.raises(DatabaseDamaged, match=r"scheduler\.db.*restore"):
        EmbeddedDatabase(path)


def test_a_schema_with_another_column_is_named_when_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.db"
    with closing(EmbeddedDatabase(path)) as db:
        db.create(metadata)
    path.write_bytes(path.read_bytes().replace(b"body", b"bodx"))
    with closing(EmbeddedDatabase(path)) as db:
        db.create(metadata)
        db.create(MetaData())  # other tables of the same file
        with pytest.raises(DatabaseDamaged, match=r"scheduler\.db.*restore"):
            db.run(lambda tx: tx.execute(select(rows.c.body)) and None)
        with pytest.raises(DatabaseDamaged, match=r"scheduler\.db.*restore"):
            db.run(lambda tx: tx.execute(insert(rows), {"id": 1, "body": b""}) and None)


def test_fn_runs_on_the_owners_thread_and_inline_on_the_callers(db: EmbeddedDatabase) -> None:
    names = {db.run(lambda tx: threading.current_thread().name) for _ in range(3)}
    assert names == {"database scheduler"}
    with closing(EmbeddedDatabase(None, inline=True)) as inline:
        assert inline.run(lambda tx: threading.current_thread()) is threading.current_thread()


def test_now_is_the_injected_clock() -> None:
    clock = ManualClock()
    with closing(EmbeddedDatabase(None, clock=clock, inline=True)) as db:
        clock.advance(5)
        assert db.run(lambda tx: tx.now()) == clock.now()


def test_every_commit_is_synced(tmp_path: Path, db: EmbeddedDatabase) -> None:
    found = db.run(lambda tx: [tx.execute(text(f"PRAGMA {name}")).scalar() for name in ("synchronous", "journal_mode")])
    assert found == [2, "wal"]


def test_the_hidden_transaction_is_the_ports() -> None:
    assert {name for name in dir(Transaction) if not name.startswith("_")} <= set(dir(SqlTransaction))


def test_a_connection_keeps_a_mebibyte_of_pages_in_memory(db: EmbeddedDatabase) -> None:
    assert db.run(lambda tx: tx.execute(text("PRAGMA cache_size")).scalar_one()) == -1024  # negative: KiB
