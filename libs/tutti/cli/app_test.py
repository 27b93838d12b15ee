"""The command tree as a whole."""

import subprocess
import sys

from click.testing import CliRunner

from tutti.chassis.version import VERSION
from tutti.cli.app import tutti
from tutti.cli.exporting import ENDINGS
from tutti.corpus.sampleformats import FORMATS


def test_no_command_waits_for_what_only_others_need() -> None:
    heavy = ("sqlalchemy", "pydantic", "jinja2", "rich", "numpy", "pyarrow", "torch")
    code = f"import sys, tutti.cli.app; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_an_option_and_a_command() -> None:
    for way in ("--version", "version"):
        assert CliRunner().invoke(tutti, [way]).output == f"{VERSION}\n"


def test_the_formats_of_an_export_are_those_that_can_be_written() -> None:
    assert {name: each.ending for name, each in FORMATS.items()} == ENDINGS
