"""An S3 server: versitygw over a folder.

Promises: loopback only; one generated key may do everything; objects are files below the folder, and users with less
rights are in its folder `iam` (accounts.py).
"""

import os
import secrets
import shutil
import signal
import subprocess
import urllib.error
from pathlib import Path

from processes import Process, ServerError, free_port, is_free, start, tell

from tutti.backbone.direct import fetch

VERSION = "v1.8.0"
IAM = "iam"
_MODULE = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"


class Gateway:
    name = "s3"
    stop_signal = signal.SIGTERM

    def __init__(self, cache: Path) -> None:
        self._folder = cache / "versitygw" / VERSION
        self._program = self._folder / "versitygw"

    def obtain(self, *, install: bool) -> None:
        del install
        if self._program.exists():
            return
        if shutil.which("go") is None:
            raise ServerError("versitygw is built by Go 1.24 or newer: install it from https://go.dev/dl")
        tell(f"s3: compiles versitygw {VERSION}; once, one to three minutes")
        self._folder.mkdir(parents=True, exist_ok=True)
        result = subprocess.run(
            ["go", "install", _MODULE],
            env={**os.environ, "GOBIN": str(self._folder)},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        if result.returncode != 0:
            raise ServerError(f"go install {_MODULE} failed:\n{result.stderr[-2000:]}")

    def settings(self, old: dict[str, str]) -> dict[str, str]:
        port = int(old.get("port", 0))
        return {
            "port": str(port if port and is_free(port) else free_port()),
            "access": old.get("access") or f"tutti{secrets.token_hex(6)}",
            "secret": old.get("secret") or secrets.token_hex(24),
        }

    def start(self, folder: Path, settings: dict[str, str]) -> Process:
        (folder / "data").mkdir(exist_ok=True)
        (folder / IAM).mkdir(mode=0o700, exist_ok=True)
        port = f"127.0.0.1:{settings['port']}"
        return start(
            [self._program, "--port", port, "--iam-dir", folder / IAM, "--quiet", "posix", folder / "data"],
            log=folder / "log",
            environment={"ROOT_ACCESS_KEY": settings["access"], "ROOT_SECRET_KEY": settings["secret"]},
        )

    def is_ready(self, settings: dict[str, str]) -> bool:
        try:
            fetch(f"http://127.0.0.1:{settings['port']}/", seconds=1)
        except urllib.error.HTTPError:
            return True  # it refuses the anonymous, so it is there
        except OSError:
            return False
        return True

    def recovers(self, settings: dict[str, str]) -> bool:
        del settings
        return False

    def url(self, settings: dict[str, str]) -> str:
        return f"s3://{settings['access']}:{settings['secret']}@127.0.0.1:{settings['port']}/tutti?secure=false"

    def wipe(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
