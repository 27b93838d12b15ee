"""Settings: sources, order, names, secrets."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from tutti.chassis.config.datadir import DataDir, named
from tutti.chassis.config.settings import SettingsError, load, secret_in


class Own(BaseModel):
    model_config = ConfigDict(extra="forbid")
    policy: str = "fifo"
    spare_nodes: int = 0
    api_token: str = ""


def test_without_anything_the_numbers_are_those_of_the_contracts() -> None:
    values = load(environment={}, services=[]).values
    assert (values.lease.ttl_seconds, values.lease.renew_seconds) == (15, 5)
    assert (values.rank.watchdog_seconds, values.rpc.deadline_seconds) == (20, 10)
    assert (values.log.fact_retention_days, values.log.inbox_retention_days) == (14, 30)
    assert (values.rank.snapshot_buffers, values.rank.spool_snapshots) == (2, 4)
    assert (values.rank.rendezvous_seconds, values.lifecycle.reconcile_seconds) == (60, 30)
    assert values.rpc.listen == "127.0.0.1:0"


def test_the_command_line_wins_over_the_environment_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "tutti.toml"
    config.write_text("[rpc]\nthreads = 2\ndeadline_seconds = 3\nattempts = 4\n")
    loaded = load(
        config,
        environment={"TUTTI_RPC__DEADLINE_SECONDS": "5", "TUTTI_RPC__ATTEMPTS": "6", "HOME": "/"},
        overrides=["rpc.attempts=7"],
        services=[],
    )
    rpc = loaded.values.rpc
    assert (rpc.threads, rpc.deadline_seconds, rpc.attempts) == (2, 5, 7)
    shown = {each.key: (each.value, each.source) for each in loaded.effective()}
    assert shown["rpc.threads"] == ("2", str(config))
    assert shown["rpc.deadline_seconds"] == ("5.0", "$TUTTI_RPC__DEADLINE_SECONDS")
    assert shown["rpc.attempts"] == ("7", "--set")
    assert shown["lease.ttl_seconds"] == ("15.0", "default")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("rpc.deadlin_seconds=3", "did you mean deadline_seconds"),
        ("rcp.threads=3", "did you mean rpc"),
        ("services.schedular=localhost:1", "did you mean scheduler"),
        ("schedular.policy=fifo", "did you mean scheduler"),
        ("rpc.threads=many", "rpc.threads (--set)"),
        ("rpc.threads=0", "seen 0"),
        ("rpc=3", "rpc (--set)"),
        ("rpc.threads", "expected key=value"),
        ("log.fact_retention_days=30", "inbox_retention_days (30) must be more than fact_retention_days (30)"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(override: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(environment={}, overrides=[override], services=["scheduler"])
    assert words in str(caught.value)


def test_an_unknown_variable_is_refused() -> None:
    with pytest.raises(SettingsError, match="did you mean ttl_seconds"):
        load(environment={"TUTTI_LEASE__TTL_SECOND": "3"}, services=[])


def test_a_variable_that_is_read_elsewhere_is_no_setting() -> None:
    assert load(environment={"TUTTI_DEBUG": "1"}, services=[]).effective() == load(environment={}).effective()


def test_a_file_that_is_missing_or_no_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such file"):
        load(tmp_path / "none.toml", environment={}, services=[])
    (tmp_path / "bad.toml").write_text("[rpc")
    with pytest.raises(SettingsError, match="is not TOML"):
        load(tmp_path / "bad.toml", environment={}, services=[])


def test_a_service_gets_its_own_table_through_its_own_model() -> None:
    loaded = load(environment={"TUTTI_SCHEDULER__SPARE_NODES": "2"}, services=["scheduler"])
    assert loaded.section("scheduler", Own) == Own(spare_nodes=2)
    wrong = load(environment={}, overrides=["scheduler.spare_node=1"], services=["scheduler"])
    with pytest.raises(SettingsError, match=r"scheduler.spare_node \(--set\).*did you mean spare_nodes"):
        wrong.section("scheduler", Own)


def test_secrets_are_hidden() -> None:
    loaded = load(
        environment={},
        overrides=[
            "database.url=postgresql://me:hunter2@db/tutti",
            "blobs.url=s3://AKIA:hunter2@host:9000/bucket",
            "scheduler.api_token=hunter2",
        ],
        services=["scheduler"],
    )
    shown = {each.key: each.value for each in loaded.effective()}
    assert "hunter2" not in str(shown)
    assert "AKIA" not in str(shown)
    assert shown["database.url"] == "postgresql://***@db/tutti"


def test_the_table_of_agents_is_read_by_the_host_too_and_is_no_service(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[trainer]\nstall_seconds = 60\n")
    assert load(config, environment={}, services=["scheduler"]).own == {"trainer": {"stall_seconds": 60}}
    with pytest.raises(SettingsError, match=r"services\.trainer .*no such service"):
        load(environment={}, overrides=["services.trainer=127.0.0.1:1"], services=["scheduler"])


@pytest.mark.parametrize(
    "line", ['database = {url = "postgresql://a:secret@h/d"}', 'own = {api_token = "secret"}'], ids=["url", "token"]
)
def test_a_file_with_a_secret_that_others_may_read_is_refused(tmp_path: Path, line: str) -> None:
    config = tmp_path / "tutti.toml"
    config.write_text(line + "\n")
    config.chmod(0o644)
    with pytest.raises(
        SettingsError, match=r"can be read by others \(mode 0644\) and .* is secret: chmod 600 it"
    ) as seen:
        load(config, environment={}, services=["own"])
    assert "postgresql" not in str(seen.value)
    config.chmod(0o640)
    load(config, environment={}, services=["own"])
    config.write_text("[rpc]\nthreads = 2\n")
    config.chmod(0o644)
    load(config, environment={}, services=[])


def test_a_rate_of_tokens_is_no_secret(tmp_path: Path) -> None:
    config = tmp_path / "tutti.toml"
    config.write_text("[access]\nanswer_tokens_per_minute = 1000\n")
    config.chmod(0o644)
    shown = {each.key: each.value for each in load(config, environment={}, services=["access"]).effective()}
    assert shown["access.answer_tokens_per_minute"] == "1000"
    assert secret_in("access.answer_tokens_per_minute=1000") == ""


def test_an_address_of_a_service_is_no_secret(tmp_path: Path) -> None:
    config = tmp_path / "tutti.toml"
    config.write_text('[services]\ntokenization = "tokenization:7000"\n[rpc]\ntokens = "/run/tokens"\n')
    config.chmod(0o644)
    shown = {each.key: each.value for each in load(config, environment={}, services=["tokenization"]).effective()}
    assert shown["services.tokenization"] == "tokenization:7000"


PROGRAMS_AND_SERVERS = {
    "supervisor.agent_command": '["/bin/sh", "-c", "id"]',
    "database.url": '"postgresql://elsewhere/x"',
    "blobs.url": '"s3://elsewhere/x"',
    "log.url": '"kafka://elsewhere:1"',
    "services.scheduler": '"elsewhere:1"',
    "rpc.listen": '"0.0.0.0:1"',
    "rpc.tokens": '"tokens"',
    "tls.ca": '"theirs.pem"',
    "trainer.address": '"elsewhere"',
    "own.policy": '"any"',
    "own.list": "[1]",
}


@pytest.mark.parametrize("key", PROGRAMS_AND_SERVERS)
def test_a_file_of_a_directory_that_nobody_named_starts_nothing_and_chooses_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.chdir(tmp_path)
    data_dir = DataDir(Path(".tutti"))
    table, _, name = key.rpartition(".")
    (data_dir.path / "tutti.toml").write_text(f"[{table}]\n{name} = {PROGRAMS_AND_SERVERS[key]}\n")
    with pytest.raises(SettingsError, match=rf"{key}.*--data-dir \.tutti"):
        load(data_dir.config, environment={}, services=["own", "scheduler"])
    given = DataDir(named(".tutti"))  # as the message says
    assert load(given.config, environment={}, services=["own", "scheduler"]).sources[key]


def test_such_a_file_may_set_numbers_choices_and_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data_dir = DataDir(Path(".tutti"))
    text = "[rpc]\nthreads = 2\nlisten = '127.0.0.1:7000'\n[telemetry]\nlevel = 'debug'\n[scrub]\nrepair = false\n"
    (data_dir.path / "tutti.toml").write_text(text)
    values = load(data_dir.config, environment={}, services=[]).values
    assert values.rpc.listen == "127.0.0.1:7000"
    assert (values.rpc.threads, values.telemetry.level, values.scrub.repair) == (2, "debug", False)
