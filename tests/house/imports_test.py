"""Libraries that a process at rest does without: each costs megabytes in every container."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tutti.chassis
from tutti.chassis.config.settings import installed_services

STORES = "tutti.backbone.kafka.eventlog, tutti.backbone.postgres.database, tutti.backbone.s3.blobs"


def imported(modules: str, libraries: set[str]) -> list[str]:
    code = f"import sys, {modules}; print(*(each for each in {sorted(libraries)} if each in sys.modules))"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize(
    "module",
    [
        *(f"tutti.{service}.service" for service in installed_services()),
        "tutti.trainer.program",
        "tutti.trainer.iochild",
    ],
)
def test_a_process_starts_without_the_libraries_that_only_its_work_needs(module: str) -> None:
    assert imported(module, {"numpy", "pyarrow", "torch"}) == []


def test_the_s3_adapter_starts_without_the_client_for_administration() -> None:
    assert imported(STORES, {"Crypto", "argon2", "pycparser"}) == []
    assert imported("tutti.backbone.s3.blobs, minio.minioadmin", {"Crypto"}) == ["Crypto"]


def test_the_entry_point_of_a_container_runs_without_installed_libraries_and_imports_little() -> None:
    code = (
        "import sys, tutti.chassis.runtime.container; "
        "print(*({'pathlib', 're', 'subprocess', 'threading', 'typing'} & {*sys.modules}))"
    )
    words = [sys.executable, "-S", "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(Path(tutti.chassis.__file__).parents[2])}
    assert subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout.split() == []
