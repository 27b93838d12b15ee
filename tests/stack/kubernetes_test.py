"""deploy/kubernetes as a text: what each pod may use, see and reach, without a cluster."""

import re
import shutil
import stat
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.manifests.__main__ import FOLDER, containers, invalid, rendered
from tools.manifests.parts import quantity

from tutti.chassis.config.datadir import tokens_at
from tutti.chassis.config.settings import installed_services, load
from tutti.chassis.identity.auth import Role

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
WORKLOADS = ("Deployment", "StatefulSet", "Job", "CronJob")
Manifest = dict[str, Any]


def composed(folder: str) -> list[Manifest]:
    """Every manifest of a base or an overlay, as kustomize would gather them."""
    found: list[Manifest] = []
    kustomization = yaml.safe_load((FOLDER / folder / "kustomization.yaml").read_text())
    for resource in kustomization["resources"]:
        path = (FOLDER / folder / resource).resolve()
        found += composed(path.name) if path.is_dir() else yaml.safe_load_all(path.read_text())
    return found


OVERLAYS = {name: composed(name) for name in ("single", "managed")}
each_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


def workloads(overlay: str) -> dict[str, Manifest]:
    return {each["metadata"]["name"]: each for each in OVERLAYS[overlay] if each["kind"] in WORKLOADS}


def pods(overlay: str) -> dict[str, Manifest]:
    return {name: template(each) for name, each in workloads(overlay).items()}


def template(workload: Manifest) -> Manifest:
    spec = workload["spec"]
    found: Manifest = (spec["jobTemplate"]["spec"] if workload["kind"] == "CronJob" else spec)["template"]
    return found


def test_the_committed_files_are_those_that_the_compose_file_gives() -> None:
    assert {name: (FOLDER / name).read_text() for name in rendered(containers())} == rendered(containers())
    committed = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.yaml")}
    assert committed == set(rendered(containers()))


def test_every_manifest_is_valid_and_a_misspelt_one_is_not() -> None:
    assert list(invalid(rendered(containers()))) == []
    wrong = rendered(containers())["base/door.yaml"].replace("replicas:", "replica:")
    (refused,) = invalid({"base/door.yaml": wrong})
    assert refused.startswith("deploy/kubernetes/base/door.yaml: Deployment door: ")
    assert "replica" in refused


@each_overlay
def test_no_two_manifests_have_one_name(overlay: str) -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in OVERLAYS[overlay]]
    assert len(set(names)) == len(names)


def test_every_service_of_the_installation_has_a_pod_with_the_limits_of_the_compose_file() -> None:
    found = pods("single")
    assert set(installed_services()) | {"agent", "archive", "door", "kafka", "postgres", "s3", "roles"} == set(found)
    for name in set(found) & set(COMPOSE):
        (container, *_) = found[name]["spec"]["containers"]
        part = COMPOSE[name]
        assert container["resources"]["limits"]["memory"] == quantity(part["mem_limit"])
        assert found[name]["spec"]["securityContext"]["runAsUser"] == int(part["user"].split(":")[0])
        assert container.get("args", part.get("command")) == part.get("command", container.get("args"))
        given = {each["name"] for each in container.get("env", [])} | {"OTEL_EXPORTER_OTLP_ENDPOINT"}
        assert set(part.get("environment", {})) <= given


@each_overlay
def test_tutti_knows_every_setting_that_a_pod_gets_from_its_environment(overlay: str) -> None:
    for name in {*installed_services(), "door", "agent"}:
        (container, *_) = pods(overlay)[name]["spec"]["containers"]
        given = {each["name"]: each.get("value", "1") for each in container["env"]}
        read = set(load(environment=given).sources.values())
        assert {f"${key}" for key in given if key.startswith("TUTTI_")} - read == {"$TUTTI_CONFIG"}, name


@each_overlay
def test_a_pod_has_no_rights_that_it_does_not_need(overlay: str) -> None:
    for name, pod in pods(overlay).items():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"], name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not spec["automountServiceAccountToken"]
        assert not spec["enableServiceLinks"]
        for container in (*spec["containers"], *spec["initContainers"]):
            rights = container["securityContext"]
            assert rights["readOnlyRootFilesystem"], (name, container["name"])
            assert not rights["allowPrivilegeEscalation"]
            assert rights["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]
            assert not re.search(r"://[^/]*:[^/]*@", str(container.get("env", ""))), "a URL with a password"


@each_overlay
def test_every_mount_has_a_volume_and_every_secret_is_made(overlay: str, tmp_path: Path) -> None:
    made = {each["metadata"]["name"] for each in credentials(tmp_path)}
    for name, workload in workloads(overlay).items():
        spec = template(workload)["spec"]
        claims = [each["metadata"]["name"] for each in workload["spec"].get("volumeClaimTemplates", [])]
        volumes = {each["name"] for each in spec["volumes"]} | set(claims)
        mounted = {each["name"] for part in (*spec["containers"], *spec["initContainers"])
                   for each in part["volumeMounts"]}  # fmt: skip
        assert mounted == volumes, name
        assert {each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each} <= made


DECLARED = {"kafka": "/var/lib/kafka/data", "postgres": "/var/lib/postgresql/data"}
"""The folder that the image of a store declares as a volume; versitygw's declares none."""


def test_the_data_of_a_store_are_in_its_claim_and_beside_lost_and_found() -> None:
    folders = {"kafka": "KAFKA_LOG_DIRS", "postgres": "PGDATA"}
    for name, variable in folders.items():
        (container, *_) = pods("single")[name]["spec"]["containers"]
        (claimed,) = [each["mountPath"] for each in container["volumeMounts"] if each["name"] == "data"]
        assert claimed == DECLARED[name], "a container's own folder would cover a part of the claim"
        (folder,) = [each["value"] for each in container["env"] if each["name"] == variable]
        assert Path(folder).parent == Path(claimed)
    for name, declared in DECLARED.items():
        assert [each for each in COMPOSE[name]["volumes"] if each.endswith(f":{declared}")] == [f"{name}:{declared}"]


def test_topics_are_made_again_for_a_broker_that_lost_its_data(tmp_path: Path) -> None:
    (_, topics) = pods("single")["kafka"]["spec"]["containers"]
    calls = tmp_path / "calls"
    # The first call fails; the third pause gets SIGTERM.
    for name, text in {
        "python": f"echo $0 $2 >> {calls}; test -e {tmp_path}/up || {{ touch {tmp_path}/up; exit 1; }}",
        "sleep": f"echo $0 $1 >> {calls}; test $(grep -c sleep {calls}) -lt 3 || kill $PPID",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(topics["command"], env={"PATH": path}, capture_output=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    assert calls.read_text().replace(f"{tmp_path}/", "").splitlines() == [
        "python topics", "sleep 5", "python topics", "sleep 300", "python topics", "sleep 300"]  # fmt: skip


def test_a_backup_is_taken_under_a_new_name_and_a_job_can_restore_one(tmp_path: Path) -> None:
    (cronjob,) = [each for each in OVERLAYS["single"] if each["kind"] == "CronJob"]
    assert cronjob["spec"]["suspend"]
    (container,) = template(cronjob)["spec"]["containers"]
    (tmp_path / "tutti").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "tutti").chmod(0o755)

    def said(**variables: str) -> str:
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", **variables}
        return subprocess.run(
            container["command"], env=environment, capture_output=True, text=True, timeout=400, check=True
        ).stdout.strip()

    assert re.fullmatch(r"backup /backups/\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d", said())
    assert said(ARCHIVE="restore /backups/monday") == "restore /backups/monday"


def test_what_keeps_running_reports_its_health_and_may_be_evicted_one_at_a_time() -> None:
    budgets = {each["metadata"]["name"] for each in OVERLAYS["single"] if each["kind"] == "PodDisruptionBudget"}
    for name in {*installed_services(), "door", "agent"}:
        (container, *_) = pods("single")[name]["spec"]["containers"]
        check = " ".join(container["readinessProbe"]["exec"]["command"])
        assert f"--check {name if name != 'agent' else chr(34) + 'agent-$POD_INDEX' + chr(34)}" in check
        assert "livenessProbe" not in container, "a store that is away would end every pod"
        assert name in budgets


def allowed(overlay: str, source: str, target: str, port: int) -> bool:
    """Whether the policies let a pod of `source` connect to one of `target`."""
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(overlay).items()}
    policies = [each["spec"] for each in OVERLAYS[overlay] if each["kind"] == "NetworkPolicy"]

    def selects(selector: Manifest, name: str) -> bool:
        return bool(selector.get("matchLabels", {}).items() <= labels[name].items())

    def one_way(at: str, peer: str, direction: str) -> bool:
        mine = [each for each in policies if selects(each["podSelector"], at) and direction in each["policyTypes"]]
        key = "from" if direction == "Ingress" else "to"
        rules = [rule for each in mine for rule in each.get(direction.lower(), [])]
        return not mine or any(
            (key not in rule or any("podSelector" in who and selects(who["podSelector"], peer) for who in rule[key]))
            and ("ports" not in rule or port in [each["port"] for each in rule["ports"]])
            for rule in rules
        )

    return one_way(source, target, "Egress") and one_way(target, source, "Ingress")


def test_a_pod_reaches_what_it_calls_and_nothing_else() -> None:
    stores = {"kafka": 9092, "postgres": 5432, "s3": 7070}
    for service in installed_services():
        assert all(allowed("single", service, store, port) for store, port in stores.items())
        assert all(allowed("single", each, service, 7000) for each in ("door", "agent", "scheduler"))
        assert not allowed("single", service, "agent", 40000)
        assert not allowed("single", service, "kafka", 9094)
        assert not allowed("single", "archive", service, 7000)
    assert all(allowed("single", "archive", store, port) for store, port in stores.items())
    assert allowed("single", "agent", "agent", 40000)
    assert allowed("single", "agent", "s3", 7070)
    assert allowed("single", "roles", "postgres", 5432)
    assert allowed("single", "roles", "s3", 7070)
    refused = {("agent", "kafka"), ("agent", "postgres"), ("door", "postgres"), ("door", "s3"), ("roles", "kafka"),
               ("kafka", "postgres"), ("s3", "postgres")}  # fmt: skip
    assert [each for each in refused if allowed("single", *each, stores[each[1]])] == []


def credentials(folder: Path, **stores: Any) -> list[Manifest]:
    sys.path.append(str(ROOT / "deploy" / "kubernetes"))
    try:
        module = import_module("credentials")
    finally:
        sys.path.remove(str(ROOT / "deploy" / "kubernetes"))
    outside = {"log": None, "database": None, "blobs": None, **stores}
    found: list[Manifest] = module.secrets(folder, **outside)
    return found


def test_an_agent_is_given_the_token_and_the_key_of_its_node_alone(tmp_path: Path) -> None:
    made = {each["metadata"]["name"]: each["stringData"] for each in credentials(tmp_path / "kept", agents=3)}
    operator = tmp_path / "operator"
    operator.write_text(made["tutti-operator"]["tokens"])
    operator.chmod(0o600)
    every = tokens_at(operator, [Role.AGENT])
    secret, settings = tmp_path / "secret", tmp_path / "settings"
    secret.mkdir()
    for name, text in made["tutti-agent"].items():
        (secret / name).write_text(text)
    (copied,) = pods("single")["agent"]["spec"]["initContainers"]
    script = copied["command"][2].replace("/secret", str(secret)).replace("/settings", str(settings))

    def start(node: int) -> subprocess.CompletedProcess[str]:
        shutil.rmtree(settings, ignore_errors=True)
        settings.mkdir()
        variables = {"POD_INDEX": str(node)}
        return subprocess.run(
            ["sh", "-c", script], env=variables, capture_output=True, text=True, timeout=400, check=False
        )

    for node in (0, 2):
        assert start(node).returncode == 0
        assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in settings.iterdir()} == {
            "tokens": 0o600,
            "tutti.toml": 0o600,
        }
        assert every.node_of((settings / "tokens").read_text().split()[1]) == str(node)
        values = load(settings / "tutti.toml", environment={}).values
        assert str(values.rpc.tokens) == "/run/tutti/agent/tokens"
        assert values.blobs.url.startswith(f"s3://agent-{node}:")
    refused = start(3)
    assert (refused.returncode, "run credentials.py --agents 4" in refused.stderr) == (1, True)


def test_urls_with_passwords_are_read_from_files(tmp_path: Path) -> None:
    url, path = "postgresql://root:correct-horse@db.test:5433/lm", tmp_path / "database"
    path.write_text(url + "\n")
    script = [
        sys.executable,
        str(ROOT / "deploy" / "kubernetes" / "credentials.py"),
        str(tmp_path / "kept"),
        "--database",
    ]
    made, refused = (
        subprocess.run([*script, each], capture_output=True, text=True, timeout=60, check=False)
        for each in (str(path), url)
    )
    (roles,) = [
        each["stringData"] for each in yaml.safe_load_all(made.stdout) if each["metadata"]["name"] == "tutti-roles"
    ]
    assert roles["url"] == url
    assert (refused.returncode, refused.stdout, "correct-horse" in refused.stderr) == (2, "", False)


def test_secrets_are_made_once_for_their_owner_and_name_the_stores(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    first = credentials(folder)
    assert credentials(folder) == first
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = {each["metadata"]["name"]: each["stringData"] for each in first}
    assert "tokens" not in files["tutti-door"]
    outside = credentials(
        folder, log="log.test:9093", database="postgresql://root:pw@db.test:5433/lm", blobs="s3://k:s@s3.test/b"
    )
    (settings,) = [each["stringData"] for each in outside if each["metadata"]["name"] == "tutti-dedup"]
    (tmp_path / "tutti.toml").touch(mode=0o600)
    (tmp_path / "tutti.toml").write_text(settings["tutti.toml"])
    (tmp_path / "tutti.toml").chmod(0o440)
    values = load(tmp_path / "tutti.toml", environment={}).values
    assert values.log.url.startswith("kafka://dedup:")
    assert values.log.url.endswith("@log.test:9093")
    assert values.database.url.startswith("postgresql://dedup:")
    assert values.database.url.endswith("@db.test:5433/lm")
    assert values.blobs.url == "s3://k:s@s3.test/b"
