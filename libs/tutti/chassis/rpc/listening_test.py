"""A server says where its calls can be read on the network."""

import asyncio

import grpc
import pytest

from tutti.chassis.config.sections import RpcSettings
from tutti.chassis.rpc.listening import listening, server_options


@pytest.mark.parametrize(
    ("listen", "warned"), [("127.0.0.1:0", False), ("[::1]:0", False), ("localhost:0", False), ("0.0.0.0:0", True)]
)
def test_calls_that_others_can_read_are_warned_of(listen: str, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def opened() -> int:
        return listening(grpc.aio.server(options=server_options(RpcSettings())), listen, None)

    assert asyncio.run(opened()) > 0
    assert ("calls are not encrypted" in caplog.text) == warned
