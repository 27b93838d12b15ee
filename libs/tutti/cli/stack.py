"""`tutti stack`: which stack the databases, the event log and the blob store of a platform belong to."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tutti.cli.connection import data_dir_option
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.output import output_option, print_list, say
from tutti.cli.suggestions import SuggestingGroup


@click.group("stack", cls=SuggestingGroup, short_help="Show or set the stack id of the stores.")
def stack() -> None:
    """The identity of a stack: one random id in each database, in the event log and in the blob store.

    A service does not start if a store is empty or belongs to another stack. These commands open the stores directly,
    with the settings of the data directory and of the environment: stop the platform first.
    """


@stack.command("show", short_help="Show the id in each store.")
@click.argument("services", nargs=-1)
@output_option
@data_dir_option
def show(services: Sequence[str], output: str, data_dir: Path) -> None:
    """Show the id in each store. SERVICES limits the databases (default: all)."""
    from tutti.chassis.store.stack import look

    with _stores(data_dir, services) as stores:
        seen = look(stores)
    rows = [{"store": store, "id": held} for store, held in sorted(seen.ids.items())]
    print_list(rows, ("store", "id"), output, nothing="no stores")


@stack.command("adopt", short_help="Write the same id to all stores, whatever they contain.")
@click.argument("services", nargs=-1)
@click.option("--id", "identity", default="", metavar="ID", help="The id to keep, if the stores have different ones.")
@data_dir_option
def adopt(services: Sequence[str], identity: str, data_dir: Path) -> None:
    """Write one id to the stores, whatever they contain. SERVICES limits the databases (default: all)."""
    from tutti.chassis.store import stack as stacks

    with _stores(data_dir, services) as stores:
        try:
            identity = stacks.adopt(stores, identity)
        except stacks.ForeignStore as error:
            raise Failure(str(error)) from None
    say(f"the stores belong to stack {identity}. Events that an emptied log lost: tutti events republish SERVICE")


@contextlib.contextmanager
def _stores(data_dir: Path, services: Sequence[str]) -> Iterator[Any]:
    from tutti.chassis.config.settings import installed_services
    from tutti.chassis.store.stack import opened

    known = installed_services()
    if unknown := sorted(set(services) - set(known)):
        raise Failure(f"{unknown[0]} is not a service; expected one of {', '.join(known)}", MISUSE)
    with settled(data_dir) as (folder, values), contextlib.ExitStack() as held:
        held.callback(folder.lock("tutti stack").release)
        with opened(values, folder, services or known) as stores:
            yield stores


@contextlib.contextmanager
def settled(data_dir: Path) -> Iterator[tuple[Any, Any]]:
    """Yield the data directory and its settings, for commands that open stores themselves. Raises Failure."""
    from tutti.chassis.config.datadir import DataDir, is_data_dir
    from tutti.chassis.config.settings import SettingsError, load
    from tutti.platform.failures import TROUBLES

    config = os.environ.get("TUTTI_CONFIG")
    if not is_data_dir(data_dir) and config is None:
        raise Failure(f"{data_dir} is not a data directory: name one with --data-dir", MISUSE)
    try:
        folder = DataDir(data_dir)
        yield folder, load(Path(config).absolute() if config else folder.config).values
    except SettingsError as error:
        raise Failure(str(error), MISUSE) from None
    except TROUBLES as error:
        raise Failure(str(error)) from None
