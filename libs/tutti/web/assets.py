"""Static files: read once, served under a path that contains the digest of their content.

All files of a site share one digest, so that modules of script can import each other by relative paths. The modules in
the folder `modules` of this package are among the files of each site.

Promises: a path never changes its content, so browsers keep it for a year; what is no known type is not served.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
SHARED = "tutti.web"


@dataclass(frozen=True)
class Asset:
    content: bytes
    type: str


class Assets:
    """The files of all sites, by site and name."""

    def __init__(self, packages: Mapping[str, str]) -> None:
        self._paths: dict[str, str] = {}
        self._assets: dict[str, Asset] = {}
        shared = _files(SHARED, "modules")
        for site, package in packages.items():
            found = _files(package, "static")
            if found:
                found = {**shared, **found}
            whole = hashlib.sha256()
            for name, asset in sorted(found.items()):
                whole.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(asset.content).digest())
            for name, asset in found.items():
                path = f"/static/{site}/{whole.hexdigest()[:16]}/{name}"
                self._paths[f"{site}/{name}"], self._assets[path] = path, asset

    def path(self, name: str) -> str:
        """The path of `site/file`. Raises KeyError."""
        return self._paths[name]

    def worker(self, name: str) -> bytes:
        """The content of the script `site/file`, which is served under a path of its own. Raises KeyError."""
        return self._assets[self._paths[name]].content

    def find(self, path: str) -> Asset | None:
        return self._assets.get(path)


def _files(package: str, name: str) -> dict[str, Asset]:
    folder = files(package) / name
    if not folder.is_dir():
        return {}
    found = {}
    for each in folder.iterdir():
        suffix = each.name[each.name.rfind(".") :]
        if suffix in TYPES:
            found[each.name] = Asset(each.read_bytes(), TYPES[suffix])
    return found
