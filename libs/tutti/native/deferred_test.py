"""Modules that are imported when they are first used."""

import sys

import pytest

from tutti.native.deferred import deferred


def test_a_module_is_imported_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    module = deferred("colorsys")
    assert "colorsys" not in sys.modules
    assert module.rgb_to_hsv(1, 1, 1) == (0, 0, 1)
    assert module.rgb_to_hsv is sys.modules["colorsys"].rgb_to_hsv


def test_the_first_use_of_a_module_that_is_not_installed_raises_what_its_import_does() -> None:
    module = deferred("tutti_has_no_such_module")
    with pytest.raises(ModuleNotFoundError, match="tutti_has_no_such_module"):
        module.anything  # noqa: B018
    with pytest.raises(AttributeError, match="nothing_like_this"):
        deferred("colorsys").nothing_like_this  # noqa: B018
