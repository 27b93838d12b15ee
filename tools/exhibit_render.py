"""The half of the exhibit that runs in a bare interpreter: writes one HTML page a module of the standard library.

It is given to `python -S - LIMIT` on standard input, so it imports nothing but that library, and no path, argument or
variable of the caller reaches a page.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import pkgutil
import pwd
import pydoc
import re
import sys
import sysconfig
import urllib.parse
import warnings

# Modules that act when they are imported (print, open a browser or a window, write files, raise SystemExit), that are
# about this machine (sys, ctypes, build variables), or that are tests.
SKIPPED = frozenset((
    "antigravity", "ctypes", "__hello__", "__phello__", "idlelib", "lib2to3", "sys", "test", "this", "tkinter",
    "_tkinter", "turtle", "turtledemo",
))  # fmt: skip
SKIPPED_PARTS = frozenset(("__main__", "tests", "test"))
# Two names of one module: even the smallest exhibit has a duplicate.
FIRST = ("os.path", "posixpath")
ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")


def module_names() -> list[str]:
    """Every module to show, public ones first; found by looking at folders, so that nothing is imported yet."""
    names = set(FIRST)
    for top in sys.stdlib_module_names - SKIPPED:
        names.add(top)
        spec = importlib.machinery.PathFinder.find_spec(top)
        if spec is not None and spec.submodule_search_locations:
            names.update(submodules(top, list(spec.submodule_search_locations)))
    shown = {name for name in names if not SKIPPED_PARTS & set(name.split("."))}
    rest = sorted(shown - set(FIRST), key=lambda name: (name.startswith("_") or "._" in name, name))
    return [*FIRST, *rest]


def submodules(package: str, folders: list[str]) -> list[str]:
    found = []
    for module in pkgutil.iter_modules(folders):
        name = f"{package}.{module.name}"
        found.append(name)
        if module.ispkg:
            found += submodules(name, [os.path.join(folder, module.name) for folder in folders])
    return found


def home() -> str:
    """The home of this process' user; empty where the machine does not know the user, as in a container."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def machine_paths(folder: str) -> list[tuple[str, str]]:
    """Paths of this machine and what stands for them in a page, longest first."""
    shared = {"/", "/usr", "/usr/local"}  # the same everywhere, and part of what documentation says
    paths = {
        folder: "/work",
        home(): "/home/reader",
        sys.executable: "/python/bin/python",
        sysconfig.get_path("stdlib"): "/python/lib",
        sysconfig.get_path("platstdlib"): "/python/lib",
        sys.base_prefix: "/python",
        sys.base_exec_prefix: "/python",
    }
    both = {spelling: shown for path, shown in paths.items() for spelling in (path, os.path.realpath(path)) if path}
    both.update({urllib.parse.quote(path): shown for path, shown in both.items()})
    return sorted(((path, shown) for path, shown in both.items() if path not in shared), key=lambda pair: -len(pair[0]))


def render(limit: int) -> None:
    """Write pages to the working folder, and the names in order to `order.json` once all are written."""
    warnings.simplefilter("ignore")
    folder = os.getcwd()
    masks = [(re.compile(re.escape(path) + r"(?![\w.-])"), shown) for path, shown in machine_paths(folder)]
    order: list[str] = []
    for name in module_names():
        if len(order) == limit:
            break
        try:
            found = pydoc.resolve(name)
            subject = found[0] if found else None
            page = pydoc.html.page(pydoc.describe(subject), pydoc.html.document(subject, name))
        except (Exception, SystemExit):  # noqa: S112
            continue  # a module for another system, or one that ends the program
        for path, shown in masks:
            page = path.sub(shown, page)
        with open(os.path.join(folder, f"{name}.html"), "wb") as file:
            file.write(ADDRESS.sub("at 0x0", page).encode("utf-8", "backslashreplace"))
        order.append(name)
    with open(os.path.join(folder, "order.json"), "w", encoding="utf-8") as file:
        json.dump(order, file)
    os._exit(0)  # what modules left running (threads, exit handlers) must not hold us up


if __name__ == "__main__":
    render(int(sys.argv.pop()))
