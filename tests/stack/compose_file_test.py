"""docker-compose.yml as a text: what each container may use and see, without an engine."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.manifests.parts import resolved

from tests.lacking import lacking
from tests.promtool import alerts, promtool
from tests.trials.docker import images
from tutti.chassis.config.settings import installed_services

ROOT = Path(__file__).resolve().parents[2]
FILE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
LAYERS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((ROOT / "deploy" / "compose").glob("*.yaml"))}
# Those of a layer alone are held to the same rules; what a layer changes of others is small.
ADDED = {
    name: FILE["services"].get(each.get("extends", {}).get("service"), {}) | each
    for layer in LAYERS.values()
    for name, each in layer["services"].items()
    if name not in FILE["services"]
}
PROTECTION = {"user", "read_only", "cap_add", "cap_drop", "security_opt", "privileged", "logging", "pids_limit"}
SERVICES: dict[str, dict[str, Any]] = FILE["services"] | ADDED
ONE_SHOT = {"secrets", "roles", "topics", "token", "archive", "authority", "reader"}
METERED = {f"tutti.{name}" for name in (*installed_services(), "trainer")}
SCRAPED_INSTEAD = {"collector"}  # its image has no program that could ask
SECRET = re.compile(r"password|secret|token|access_key|credential", re.IGNORECASE)

# The part of docker compose 2.40 that reads its files.
LOADER = "github.com/compose-spec/compose-go/v2/cmd@v2.9.1"

each_container = pytest.mark.parametrize("name", SERVICES)


def test_every_service_of_the_installation_has_a_container() -> None:
    modules = {name: str(each.get("command", [""])[0]) for name, each in SERVICES.items()}
    here = {name for name, module in modules.items() if module == f"tutti.{name}"}
    assert sorted(here) == installed_services()
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["tutti.services"]
    assert here == set(entry_points)


@each_container
def test_a_container_is_limited_and_logs_are_rotated(name: str) -> None:
    each = SERVICES[name]
    assert {"mem_limit", "pids_limit", "restart", "stop_grace_period"} <= set(each)
    assert set(each["logging"]["options"]) == {"max-size", "max-file"}


@each_container
def test_every_volume_has_a_name(name: str) -> None:
    """One without stays behind with each container that is removed, and nobody knows whose it was."""
    volumes = [str(each) for each in SERVICES[name].get("volumes", [])]
    assert [each for each in volumes if not re.match(r"[^/][^:]*:/|\$\{[^}]+\}:/", each)] == []


@each_container
def test_a_container_has_no_rights_that_it_does_not_need(name: str) -> None:
    each = SERVICES[name]
    assert each["read_only"]
    assert each["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in each["security_opt"]
    if name == "secrets":  # it gives folders to their users, and has no network
        assert each["cap_add"] == ["CHOWN", "DAC_OVERRIDE"]
        assert each["network_mode"] == "none"
    else:
        assert "cap_add" not in each
        assert not each["user"].startswith("0")


@each_container
def test_a_container_that_keeps_running_is_restarted_and_reports_its_health(name: str) -> None:
    each = SERVICES[name]
    if name in ONE_SHOT:
        assert each["restart"] in ("no", "on-failure", "on-failure:5")
        assert each["healthcheck"] == {"disable": True}
    else:
        assert each["restart"] == "unless-stopped"
        if name in SCRAPED_INSTEAD:
            assert each["healthcheck"] == {"disable": True}
            return
        assert each["healthcheck"]["test"][0] == "CMD"
        if str(each.get("command", [""])[0]).startswith("tutti."):
            assert each["healthcheck"]["test"][-2:] == ["--check", name]


@each_container
def test_ports_are_on_loopback(name: str) -> None:
    assert all(str(port).startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


@each_container
def test_no_secret_is_written_down_or_handed_over_by_environment(name: str) -> None:
    for key, value in SERVICES[name].get("environment", {}).items():
        assert key.endswith("_FILE") or not SECRET.search(key), key
        assert not re.search(r"://[^/]*:[^/]*@", str(value)), key


def test_secrets_are_made_for_each_container_and_its_user() -> None:
    made = dict(each.split("=") for each in SERVICES["secrets"]["command"])
    readers = {name: each for name, each in SERVICES.items() if "secrets:/run/tutti:ro" in each.get("volumes", [])}
    folders = {"token": "operator", "authority": "operator"}
    users = {folders.get(name, name): each["user"].partition(":")[0] for name, each in readers.items()}
    assert made == users
    assert len(set(made.values())) == len(made)


def test_a_layer_takes_no_limit_away_and_holds_no_secret() -> None:
    for layer in LAYERS.values():
        for name, each in layer["services"].items():
            if name in FILE["services"]:
                assert not set(each) & PROTECTION
            assert all(not SECRET.search(str(value)) for value in each.get("environment", {}).values())


@pytest.fixture(scope="module")
def loader() -> Path:
    """The program by which docker compose reads its files, without an engine; built once, with Go."""
    folder = ROOT / "build" / "compose-go" / LOADER.rpartition("@")[2]
    if not (folder / "cmd").exists():
        if shutil.which("go") is None:
            lacking("this validates docker-compose.yml and its layers, and needs Go")
        command = ["go", "install", "-trimpath", LOADER]
        environment = {**os.environ, "GOBIN": str(folder)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            lacking(f"{' '.join(command)} failed: {done.stderr[-1000:]}")
    return folder / "cmd"


def loaded(loader: Path, *files: Path) -> "subprocess.CompletedProcess[str]":
    command: list[str | Path] = [loader, "--format", "json", ROOT / "docker-compose.yml", *files]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, cwd=ROOT)


@pytest.mark.parametrize("layers", [(), *((name,) for name in LAYERS), tuple(LAYERS)], ids="+".join)
def test_the_file_is_valid_with_each_layer_and_with_all_of_them(loader: Path, layers: tuple[str, ...]) -> None:
    done = loaded(loader, *(ROOT / "deploy" / "compose" / f"{name}.yaml" for name in layers))
    assert done.returncode == 0, done.stderr
    merged = json.loads(done.stdout)["services"]
    assert set(merged) == {*FILE["services"], *(each for name in layers for each in LAYERS[name]["services"])}
    for each in merged.values():
        assert each["read_only"]
        assert each["cap_drop"] == ["ALL"]
        assert each["mem_limit"]


def test_a_misspelt_layer_is_not_valid(loader: Path, tmp_path: Path) -> None:
    wrong = (ROOT / "deploy" / "compose" / "gpu.yaml").read_text().replace("devices:", "device:")
    (tmp_path / "wrong.yaml").write_text(wrong)
    done = loaded(loader, tmp_path / "wrong.yaml")
    assert done.returncode != 0
    assert "device" in done.stderr


def interpolated(value: str, variables: dict[str, str]) -> str:
    """A value of a compose file with its variables, or their defaults, which may contain variables too."""
    while "${" in value:
        value = re.sub(r"\$\{(\w+):-([^{}]*)\}", lambda found: variables.get(found[1], found[2]), value)
    return value


@pytest.mark.parametrize("ports", [{}, {"TUTTI_PAGES_PORT": "8001", "TUTTI_ANNOTATION_PORT": "8002"}])
def test_links_lead_to_the_port_of_the_pages(ports: dict[str, str]) -> None:
    for name in ("pipeline", "annotation", "chat"):
        (port,) = [interpolated(each, ports).split(":")[1] for each in SERVICES[name]["ports"]]
        link = interpolated(SERVICES[name]["environment"]["TUTTI_WEB__PUBLIC_URL"], ports)
        assert link == f"http://127.0.0.1:{port}"


def test_links_lead_to_the_first_replica_on_the_ports_that_the_layer_names() -> None:
    text = (ROOT / "deploy" / "compose" / "replicas.yaml").read_text()
    (line,) = re.findall(r"^#     export (TUTTI_PAGES_PORT.*)$", text, re.MULTILINE)
    exported = dict(each.split("=") for each in line.split())
    for name in ("pipeline", "annotation"):
        (ports,) = [interpolated(each, exported).split(":")[1] for each in SERVICES[name]["ports"]]
        link = interpolated(LAYERS["replicas"]["services"][name]["environment"]["TUTTI_WEB__PUBLIC_URL"], exported)
        assert link == f"http://127.0.0.1:{ports.partition('-')[0]}"


def test_two_replicas_of_each_service_open_80_connections_at_most() -> None:
    layer = {name: each for name, each in LAYERS["replicas"]["services"].items() if "deploy" in each}
    assert sorted(layer) == installed_services()
    copies = {name: each["deploy"]["replicas"] for name, each in layer.items()}
    assert copies == {name: 1 if name == "chat" else 2 for name in layer}, "answers are routed by one process"
    most = sum(copies[name] * int(each["environment"]["TUTTI_DATABASE__CONNECTIONS"]) for name, each in layer.items())
    print(f"{most} connections to Postgres at most")
    assert most <= 80


def test_kafka_serves_nobody_without_a_password_beyond_its_own_container() -> None:
    kafka = SERVICES["kafka"]["environment"]
    open_to = {name for name, _, address in listeners(kafka["KAFKA_LISTENERS"]) if not address.startswith("localhost:")}
    protocols = dict(each.split(":") for each in kafka["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    assert {protocols[name] for name in open_to} == {"SASL_PLAINTEXT"}
    sharing = {name for name, each in SERVICES.items() if each.get("network_mode") == "service:kafka"}
    assert sharing == {"topics"}


def test_kafka_writes_no_log_files() -> None:
    kafka = SERVICES["kafka"]["environment"]
    assert kafka["KAFKA_LOG4J_OPTS"].endswith("/tools-log4j2.yaml"), "log4j2.yaml writes files that nothing deletes"
    assert kafka["KAFKA_GC_LOG_OPTS"], "if it is empty, the start script adds a log file of garbage collections"


def test_readers_reach_the_servers_with_a_password_alone() -> None:
    layer = LAYERS["readers"]["services"]
    kafka = layer["kafka"]["environment"]
    protocols = dict(each.split(":") for each in kafka["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    outside = {name for name, _, where in listeners(kafka["KAFKA_LISTENERS"]) if not where.startswith("localhost:")}
    assert {protocols[name] for name in outside} == {"SASL_PLAINTEXT"}
    before = SERVICES["kafka"]["environment"]
    for key in ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"):
        assert set(before[key].split(",")) <= set(kafka[key].split(","))
    for name in ("kafka", "postgres", "s3"):
        assert [str(port).startswith("127.0.0.1:") for port in layer[name]["ports"]] == [True]


def test_brokers_serve_nobody_without_a_password_beyond_their_own_network() -> None:
    layer = LAYERS["replicas"]
    assert layer["networks"] == {"brokers": {"internal": True}}
    inside = {name: each for name, each in layer["services"].items() if "brokers" in each.get("networks", {})}
    assert set(inside) == {"kafka", "kafka-2", "kafka-3"}
    protocols = dict(
        each.split(":") for each in SERVICES["kafka"]["environment"]["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
    )
    for each in inside.values():
        (alias,) = each["networks"]["brokers"]["aliases"]
        for name, _, address in listeners(each["environment"]["KAFKA_LISTENERS"]):
            assert protocols[name] == "SASL_PLAINTEXT" or address.startswith(f"{alias}:")


def listeners(text: str) -> list[tuple[str, str, str]]:
    return [each.partition("://") for each in text.split(",")]


def test_images_of_others_have_a_version_that_the_trial_knows() -> None:
    public = {image for each in SERVICES.values() if not (image := resolved(each["image"])).startswith("tutti/")}
    assert public == {*images.SERVERS.values(), *images.UNTRIED}
    assert all(re.search(r":v?\d", image) for image in public)


def test_only_what_is_named_is_sent_to_the_engine() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored[0] == "*"
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "deploy/docker/Dockerfile").read_text(), re.MULTILINE)
    roots = {each.removeprefix("!").split("*")[0] for each in ignored if each.startswith("!")}
    assert all(source.startswith(tuple(roots)) for line in copied for source in line.split())


def test_prometheus_scrapes_every_service_and_agent_and_the_door() -> None:
    folder = ROOT / "deploy" / "docker" / "prometheus"
    job, door, beside = yaml.safe_load((folder / "prometheus.yml").read_text())["scrape_configs"]
    assert door["static_configs"] == [{"targets": ["door:9464"], "labels": {"container": "door"}}]
    assert {beside["job_name"]} == SCRAPED_INSTEAD
    assert beside["static_configs"] == [{"targets": ["collector:8888"]}]
    (targets,) = job["dns_sd_configs"]
    scraped = {name for name, each in SERVICES.items() if str(each.get("command", [""])[0]) in METERED}
    assert set(targets["names"]) == scraped
    assert targets["port"] == 9464
    assert f"< {len(scraped)} or" in (folder / "rules.yml").read_text()


def test_alerts_say_what_to_do() -> None:
    for rule in alerts():
        assert set(rule["annotations"]) == {"summary", "action", "runbook"}


def test_each_alert_has_a_runbook_and_fires_when_its_condition_holds() -> None:
    folder = ROOT / "deploy" / "docker" / "prometheus"
    titles = re.findall(r"^### (.*)$", (ROOT / "docs" / "operations" / "alerts.md").read_text(), re.MULTILINE)
    sections = {f"docs/operations/alerts.md#{title.lower().replace(' ', '-')}" for title in titles}
    assert {rule["annotations"]["runbook"] for rule in alerts()} <= sections
    cases = yaml.safe_load((folder / "rules_test.yml").read_text())["tests"]
    fired = {test["alertname"] for case in cases for test in case["alert_rule_test"] if test["exp_alerts"]}
    assert fired == {rule["alert"] for rule in alerts()}
    command = [promtool(), "test", "rules", str(folder / "rules_test.yml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
