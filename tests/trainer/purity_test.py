"""What ranks and I/O children import, and what the fork server is."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

FORBIDDEN = {"grpc", "kafka", "sqlalchemy", "sqlite3", "psycopg", "opentelemetry", "minio"}


def imports_of(module: str) -> set[str]:
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return {name.partition(".")[0] for name in json.loads(found.stdout)}


def test_a_rank_and_its_fork_server_import_no_grpc_no_kafka_and_no_sql() -> None:
    found = imports_of("tutti.trainer.rank.forkserver, tutti.trainer.rank.rank")
    assert "torch" in found
    assert not found & FORBIDDEN


def test_an_io_child_imports_neither_torch_nor_grpc_nor_sql() -> None:
    assert not imports_of("tutti.trainer.io.iochild") & (FORBIDDEN | {"torch"})


def test_the_fork_server_has_one_thread_and_stays_small(stage: Any, wait: Callable[..., None]) -> None:
    agent = stage.agent()
    stage.plane.assign("a", stage.assignment(stage.training(steps=100_000, checkpoint_every=100_000)))
    wait(lambda: stage.plane.last_step > 3)
    server = agent.launcher.server.server.pid
    assert agent.launcher.server.threads_of_server == 1
    assert len(os.listdir(f"/proc/{server}/task")) == 1
    assert psutil.Process(server).memory_full_info().pss < 700 << 20
    rank = psutil.Process(agent.pids()[0])
    assert rank.ppid() == server
    opened = {Path(file.path).suffix for file in rank.open_files()}
    assert ".db" not in opened
