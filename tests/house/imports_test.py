"""Libraries that a process at rest does without: each costs megabytes in every container."""

import subprocess
import sys

from tutti.chassis.config.settings import installed_services

STORES = "tutti.backbone.kafka.eventlog, tutti.backbone.postgres.database, tutti.backbone.s3.blobs"


def imported(modules: str, libraries: set[str]) -> list[str]:
    code = f"import sys, {modules}; print(*(each for each in {sorted(libraries)} if each in sys.modules))"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def test_processes_start_without_the_libraries_that_only_their_work_needs() -> None:
    services = [f"tutti.{service}.service" for service in installed_services()]
    modules, libraries = (
        [*services, "tutti.trainer.agent.main", "tutti.trainer.io.iochild"],
        {"numpy", "pyarrow", "torch"},
    )
    if imported(", ".join(modules), libraries):  # what all of them together do without, each of them does
        assert {module: found for module in modules if (found := imported(module, libraries))} == {}


def test_the_stages_of_a_pipeline_are_known_without_the_libraries_of_their_work() -> None:
    code = (
        "import sys; from tutti.pipeline.plans import registry; registry.definitions(); print('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"


def test_the_s3_adapter_starts_without_the_client_for_administration() -> None:
    assert imported(STORES, {"Crypto", "argon2", "pycparser"}) == []
    assert imported("tutti.backbone.s3.blobs, minio.minioadmin", {"Crypto"}) == ["Crypto"]
