"""Templates: every site's own, on top of the ones that all pages share.

Promises: every value is escaped; a name that a template misspells is an error.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from importlib.resources import files
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined

from tutti.chassis.version import VERSION
from tutti.web.assets import Assets
from tutti.web.formats import FILTERS
from tutti.web.pages import Entry, Page, Site, menu_of
from tutti.web.visitors import Session

SHARED = "tutti.web"


class Templates:
    def __init__(self, sites: Sequence[Site], assets: Assets) -> None:
        self._menu = menu_of(sites)
        shared = FileSystemLoader(_templates(SHARED))
        self._environments: dict[str, Environment] = {}
        for site in sites:
            loader = ChoiceLoader([FileSystemLoader(_templates(site.package)), PrefixLoader({"web": shared})])
            self._environments[site.name] = _environment(loader, assets, site.filters)
        self._shared = _environment(ChoiceLoader([PrefixLoader({"web": shared})]), assets, {})

    def page(self, site: str, page: Page, session: Session, values: Mapping[str, object]) -> str:
        """A page as HTML."""
        template = self._environments[site].get_template(page.template)
        return template.render({**self._frame(session), **values, "title": page.title, "view": page.view})

    def shared(self, name: str, title: str, session: Session | None, values: Mapping[str, object]) -> str:
        """A page that belongs to no service: login, errors."""
        return self._shared.get_template(f"web/{name}").render({**self._frame(session), **values, "title": title})

    def _frame(self, session: Session | None) -> dict[str, object]:
        menu: list[Entry] = []
        if session is not None:
            menu = [entry for entry in self._menu if session.principal.may(entry.roles)]
        return {"menu": menu, "session": session, "version": VERSION, "live": None, "here": "", "form_token": ""}


def as_json(view: object) -> str:
    """The view of a page as JSON; numbers that JSON does not have become null."""
    assert dataclasses.is_dataclass(view)
    assert not isinstance(view, type)
    return json.dumps(_plain(dataclasses.asdict(view)), allow_nan=False, ensure_ascii=False, indent=1)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def _templates(package: str) -> Path:
    return Path(str(files(package))) / "templates"


def _environment(loader: ChoiceLoader, assets: Assets, filters: Mapping[str, object]) -> Environment:
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals["static"] = assets.path
    made.filters.update(FILTERS)
    made.filters.update(filters)
    return made
