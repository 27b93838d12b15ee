"""Framing: messages arrive whole, however the stream is cut; what is no message is refused."""

import itertools
import select
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.contracts.trainer.v1 import Failed, RankMessage, Stop
from tutti.trainer.framing import BlockingChannel, FramingError, PolledChannel, Unframer, encode


def message(text: str) -> RankMessage:
    return RankMessage(failed=Failed(message=text))


@given(texts=st.lists(st.text(max_size=50), max_size=10), cuts=st.lists(st.integers(0, 2000), max_size=20))
def test_messages_arrive_whole_however_the_stream_is_cut(texts: list[str], cuts: list[int]) -> None:
    stream = b"".join(encode(message(text)) for text in texts)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    unframer, found = Unframer(), []
    for start, end in itertools.pairwise(places):
        found += unframer.feed(stream[start:end])
    unframer.end()
    assert [RankMessage.FromString(body).failed.message for body in found] == texts


@given(texts=st.lists(st.text(min_size=1, max_size=50), min_size=1, max_size=4), lost=st.integers(1, 5))
def test_a_stream_that_ends_inside_a_message_says_so(texts: list[str], lost: int) -> None:
    stream = b"".join(encode(message(text)) for text in texts)
    unframer = Unframer()
    unframer.feed(stream[:-lost])
    with pytest.raises(FramingError, match="ended"):
        unframer.end()


def test_a_message_beyond_the_limit_is_refused_on_both_sides() -> None:
    with pytest.raises(FramingError, match="expected at most 10"):
        encode(message("x" * 100), limit=10)
    with pytest.raises(FramingError, match="4294967295 bytes is announced"):
        Unframer().feed(struct.pack("<I", 0xFFFFFFFF))


def test_a_polled_end_sends_more_than_the_socket_takes_at_once() -> None:
    here, there = socket.socketpair()
    with PolledChannel(here, RankMessage) as sender, PolledChannel(there, RankMessage) as receiver:
        texts = [f"{number}" + "x" * 100_000 for number in range(30)]
        for text in texts:
            sender.send(message(text))
        found: list[RankMessage] = []
        while len(found) < len(texts):
            found += receiver.receive()
            sender.flush()
        assert [each.failed.message for each in found] == texts


def test_the_last_words_of_a_dead_end_are_heard_before_its_end() -> None:
    here, there = socket.socketpair()
    channel = PolledChannel(here, RankMessage)
    there.sendall(encode(message("last words")) + b"\x05\x00")
    there.close()
    channel.send(RankMessage(stop=Stop()))
    assert [each.failed.message for each in channel.receive()] == ["last words"]
    assert channel.ended


def test_a_blocking_end_waits_no_longer_than_asked_and_raises_at_the_end() -> None:
    here, there = socket.socketpair()
    channel = BlockingChannel(here, RankMessage)
    assert channel.receive(0.01) is None
    there.sendall(encode(message("hello")))
    received = channel.receive(1.0)
    assert received is not None
    assert received.failed.message == "hello"
    there.close()
    with pytest.raises(EOFError):
        channel.receive(1.0)


def test_a_reader_that_does_not_read_never_blocks_who_only_tries() -> None:
    here, there = socket.socketpair()
    channel = BlockingChannel(here, RankMessage)
    while select.select([], [here], [], 0)[1]:
        here.send(b"x" * 4096)
    assert not channel.try_send(RankMessage(stop=Stop()))
    there.close()
