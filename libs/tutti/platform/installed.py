"""The services that are installed: found by their entry points."""

import importlib
from importlib.metadata import entry_points

from tutti.chassis.config.settings import SettingsError, installed_services
from tutti.chassis.service import Build


def find(name: str) -> tuple[str, Build]:
    """A service by the name of its entry point, or by `name=package.module:build`. Raises SettingsError."""
    service, given, path = name.partition("=")
    if not given:
        found = entry_points(group="tutti.services", name=service)
        if not found:
            known = ", ".join(installed_services()) or "none"
            raise SettingsError(f"{service}: no such service is installed; installed: {known}")
        try:
            build: Build = next(iter(found)).load()
        except ImportError as error:
            hint = "install what it needs, such as pip install 'tutti[all]'"
            raise SettingsError(f"the service {service} cannot be loaded: {error}; {hint}") from None
        return service, build
    module, _, attribute = path.partition(":")
    try:
        build = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"{name}: {error}; expected name=package.module:build") from None
    return service, build
