"""The dashboards as a text: up to date, without two that share an address, and every expression is PromQL."""

import json
import subprocess
from pathlib import Path

import yaml
from tools.dashboards import DASHBOARDS, FOLDER, expressions, rendered

from tests.promtool import promtool

ROOT = Path(__file__).resolve().parents[2]


def test_the_committed_files_are_those_that_the_script_writes() -> None:
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == rendered()


def test_each_dashboard_has_an_address_and_asks_the_data_source_that_is_provisioned() -> None:
    sources = yaml.safe_load((FOLDER.parent / "provisioning/datasources/stores.yml").read_text())["datasources"]
    boards = [json.loads(text) for text in rendered().values()]
    assert len({board["uid"] for board in boards}) == len(DASHBOARDS)
    asked = {panel["datasource"]["uid"] for board in boards for panel in board["panels"]}
    assert asked <= {source["uid"] for source in sources}


def test_every_expression_is_promql(tmp_path: Path) -> None:
    def checked(lines: list[str]) -> int:
        rules = [{"record": f"line:{number}", "expr": line} for number, line in enumerate(lines)]
        (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "lines", "rules": rules}]}))
        command = [promtool(), "check", "rules", str(tmp_path / "rules.yml")]
        return subprocess.run(command, capture_output=True, timeout=400, check=False).returncode

    assert checked(expressions()) == 0
    assert checked([*expressions(), "sum by (x) (rate(a[5m])"]) != 0
