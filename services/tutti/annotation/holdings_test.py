"""Databases of version 0.2.0 get the tenants of the blobs that were published before."""

import shutil
from pathlib import Path
from typing import Any

from sqlalchemy import MetaData, text

from tutti.annotation import migrations
from tutti.backbone.connect import open_database
from tutti.backbone.migrations import History
from tutti.contracts.annotation.v1 import (
    AcceptedDemonstrations,
    Campaign,
    Demonstrations,
    DemonstrationsSpec,
    JudgedCampaign,
    Preferences,
    PreferencesSpec,
)
from tutti.contracts.common.v1 import Artifact

BEFORE = 9
"""The revision of the tables of version 0.2.0."""


def test_blobs_of_earlier_versions_belong_to_the_tenants_of_their_campaigns(tmp_path: Path) -> None:
    history = Path(next(iter(migrations.__path__)))
    former = tmp_path / "former"
    former.mkdir()
    for each in history.glob("0*.py"):
        if int(each.name[:4]) <= BEFORE:
            shutil.copy(each, former)
    others = [JudgedCampaign(campaign="campaigns/b", manifest_key="annotation/b-before")]
    judged = PreferencesSpec(campaign="campaigns/a", manifest_key="annotation/a-before", others=others)
    accepted = [AcceptedDemonstrations(campaign="campaigns/c", manifest_key="annotation/c-accepted")]
    rows: dict[str, list[Any]] = {
        "campaigns": [
            Campaign(name="campaigns/a", tenant="tenants/x", result=Artifact(manifest_key="annotation/a")),
            Campaign(name="campaigns/b", tenant="tenants/x"),
            Campaign(name="campaigns/c", tenant="tenants/y", result=Artifact(manifest_key="annotation/c")),
        ],
        "preferences": [
            Preferences(name="preferences/p", spec=judged, result=Artifact(manifest_key="annotation/p")),
            Preferences(
                name="preferences/q",
                spec=PreferencesSpec(campaign="campaigns/gone", manifest_key="annotation/gone"),
                result=Artifact(manifest_key="annotation/q"),
            ),
        ],
        "demonstrations": [
            Demonstrations(
                name="demonstrations/d",
                spec=DemonstrationsSpec(accepted=accepted),
                result=Artifact(manifest_key="annotation/d"),
            )
        ],
    }

    def plant(tx: Any) -> None:
        for table, found in rows.items():
            for each in found:
                values = {"name": each.name, "body": each.SerializeToString()}
                insert = f"INSERT INTO {table} VALUES (:name, 1, :body, '', NULL, '', 0)"  # noqa: S608 - our tables
                tx.execute(text(insert), values)

    database = open_database(f"sqlite://{tmp_path}", "annotation")
    database.create(MetaData(), [History(former, "the tables")])
    database.run(plant)
    database.create(MetaData(), [History(history, "the tables")])
    held = database.run(lambda tx: tx.execute(text("SELECT key, tenant FROM holdings ORDER BY key")).all())
    database.close()
    assert [tuple(row) for row in held] == [
        ("annotation/a", "tenants/x"),
        ("annotation/a-before", "tenants/x"),
        ("annotation/b-before", "tenants/x"),
        ("annotation/c", "tenants/y"),
        ("annotation/c-accepted", "tenants/y"),
        ("annotation/d", "tenants/y"),
        ("annotation/p", "tenants/x"),
    ]
