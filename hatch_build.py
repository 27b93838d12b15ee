"""The build hook of the wheel: compiles the C kernels, so that an installation needs no compiler.

Promises: a wheel with kernels is tagged for its platform; without a C compiler the wheel is built all the same and says
so, because every kernel has a twin in Python.
"""

import os
import shutil
import sys
import sysconfig
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOTS = ("libs", "services")


class KernelBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds `_<name>-<digest>.so` beside each C file of the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # kernels of a clone are compiled at their first use
            return
        compiler = shutil.which(os.environ.get("CC", "")) or shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            print("tutti: no C compiler, so the wheel has no kernels; their Python twins are slower", file=sys.stderr)
            return
        root = Path(self.root)
        spec = spec_from_file_location("wheelkernels", root / "libs/tutti/native/wheelkernels.py")
        assert spec is not None
        assert spec.loader is not None
        kernels = module_from_spec(spec)
        spec.loader.exec_module(kernels)
        self._scratch = tempfile.TemporaryDirectory(prefix="tutti-kernels-")
        for each in ROOTS:
            for source in sorted((root / each).rglob("*.c")):
                library = kernels.build(source, Path(self._scratch.name), compiler)
                target = (source.parent / library.name).relative_to(root / each)
                build_data["force_include"][str(library)] = str(target)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if scratch := getattr(self, "_scratch", None):
            scratch.cleanup()
