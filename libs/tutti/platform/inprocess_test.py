"""Services that answer in this process, over empty stores."""

from pathlib import Path

import pytest

from tutti.chassis.config.settings import load
from tutti.chassis.errors import InvalidField, NotFound, Unimplemented
from tutti.client import Client
from tutti.contracts.admin.v1 import WatchRequest
from tutti.contracts.admin.v1.stubs import AdminStub
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.pipeline.v1 import CheckRecipeRequest
from tutti.platform.inprocess import InProcessServices

DEFAULTS = load(environment={})


def test_a_recipe_is_checked_with_its_folder_and_nothing_is_missed(tmp_path: Path) -> None:
    pages, stores = tmp_path / "pages", tmp_path / "stores"
    pages.mkdir()
    stores.mkdir()
    (pages / "one.txt").write_text("Once there was a text.\n" * 40)
    request = CheckRecipeRequest(
        recipe="input: {path: pages}\nsize: tiny\ntrain: {steps: 4, stepz: 3}\n",
        directory=str(tmp_path),
        all_problems=True,
    )
    with InProcessServices(stores, DEFAULTS) as services:
        found = Client.of_channels(services.channel).pipeline.CheckRecipe(request)
        assert [each.key for each in found.problems] == ["train.stepz"]
        assert found.inputs[0].sample.documents == 1
        assert not services.missed


def test_a_resource_that_these_stores_cannot_have_is_reported_as_missed(tmp_path: Path) -> None:
    with InProcessServices(tmp_path, DEFAULTS) as services:
        client = Client.of_channels(services.channel)
        with pytest.raises(InvalidField):
            client.pipeline.GetRun(GetRequest(name="nonsense"))
        assert not services.missed
        with pytest.raises(NotFound, match="runs/none does not exist"):
            client.pipeline.GetRun(GetRequest(name="runs/none"))
        assert services.missed


def test_a_stream_is_refused(tmp_path: Path) -> None:
    with (
        InProcessServices(tmp_path, DEFAULTS) as services,
        pytest.raises(Unimplemented, match="only a platform that runs"),
    ):
        next(AdminStub(services.channel("pipeline")).Watch(WatchRequest(name="runs/none")))
