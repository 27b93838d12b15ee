"""An annotator on another machine: the pages behind a proxy that speaks TLS, at the public URL of the platform."""

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from click.testing import CliRunner
from playwright.sync_api import expect

from tests.browser.campaign import GUIDELINE, pair_lines
from tests.browser.chromium import chromium
from tests.browser.login import log_in
from tests.web.hosted import hosted
from tutti.annotation.service import build
from tutti.chassis.demo_test import eventually
from tutti.chassis.identity.certificates import issue, make_authority
from tutti.cli.app import build as build_cli


@contextlib.contextmanager
def proxy(folder: Path, server: int) -> Iterator[int]:
    """The port of a proxy with TLS, which forwards every byte to the port of the server."""
    now = datetime.now(UTC)
    authority = make_authority("a test", now)
    leaf = issue(authority, ["tutti.localhost"], now)
    chain, key = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(leaf.certificate + authority.certificate)
    key.write_bytes(leaf.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    accepted, _ = listening.accept()
                    threading.Thread(target=forward, args=(accepted,), daemon=True).start()

        def forward(accepted: socket.socket) -> None:
            with (
                contextlib.suppress(OSError),
                context.wrap_socket(accepted, server_side=True) as outer,
                socket.create_connection(("127.0.0.1", server)) as inner,
            ):
                back = threading.Thread(target=pump, args=(inner, outer), daemon=True)
                back.start()
                pump(outer, inner)
                back.join()

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


def test_an_invitation_is_followed_and_pairs_are_judged_over_tls(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text(pair_lines(3))
    (tmp_path / "guideline.md").write_text(GUIDELINE)
    with socket.create_server(("127.0.0.1", 0)) as free:
        server = free.getsockname()[1]
    with proxy(tmp_path, server) as port, chromium() as browser:
        public = f"https://tutti.localhost:{port}"
        settings = (f"web.public_url={public}", f"web.listen=127.0.0.1:{server}")
        with hosted(tmp_path / "data", *settings, builds={"annotation": build}) as served:

            def tutti(*arguments: str) -> str:
                command = [*arguments, "--data-dir", str(served.data_dir.path), "-o", "json"]
                done = CliRunner().invoke(build_cli(), command, standalone_mode=False, catch_exceptions=False)
                assert "set web.public_url" not in done.stderr
                return done.stdout

            given = ["--pairs", str(tmp_path / "pairs.jsonl"), "--guideline", str(tmp_path / "guideline.md")]
            plain = ["--axis", "helpful=Which?", "--controls", "0", "--qualification", "0", "0"]
            tutti("campaigns", "create", "far", *given, *plain)
            eventually(lambda: json.loads(tutti("campaigns", "show", "far"))["state"] == "open")
            (invited,) = json.loads(tutti("campaigns", "invite", "far", "Ada Example"))
            assert invited["url"].startswith(f"{public}/login/")
            context = browser.new_context(ignore_https_errors=True)
            page = context.new_page()
            log_in(page, invited["url"])
            page.wait_for_url(f"{public}/annotation/far")
            expect(page.get_by_role("heading", name="Before you begin")).to_be_visible()
            page.keyboard.press("Enter")
            for number in range(3):
                expect(page.locator("#pair")).to_be_visible()
                page.keyboard.press("1")
                expect(page.locator("#progress")).to_contain_text(f"{number + 1} of ")
            expect(page.locator("#saved")).to_have_text("saved")
            (ada,) = json.loads(tutti("annotators", "ls", "far"))
            assert ada["judged"] == 3
            (cookie,) = context.cookies()
            assert cookie["name"].startswith("__Host-")
            assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Lax")
            context.close()
