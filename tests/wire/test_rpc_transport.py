# SPDX-License-Identifier: Apache-2.0
"""Transports and deadlines: bytes arrive, deadlines hold, a closed end is noticed."""

import os
import pty
import socket
import threading
import tty
from collections.abc import Iterator

import pytest

from mlf_sdk.errors import TargetError
from mlf_sdk.testing.fake import FakeClock
from mlf_sdk.wire.transport import Deadline, LoopbackTransport, PipeTransport, SocketTransport, Transport


def soon() -> Deadline:
    return Deadline.after(5)


def test_deadlines() -> None:
    clock = FakeClock()
    deadline = Deadline.after(3, clock)
    assert (deadline.remaining(), deadline.expired) == (3, False)
    clock.sleep(1)
    assert deadline.within(0.5).remaining() == 0.5
    assert deadline.within(10).remaining() == 2
    clock.sleep(2)
    assert (deadline.remaining(), deadline.expired) == (0, True)
    clock.sleep(1)
    assert deadline.remaining() == 0


class Peer:
    """The other end of a transport, as two functions."""

    def __init__(self, transport: Transport, read_fd: int, write_fd: int) -> None:
        self.transport = transport
        self.read_fd, self.write_fd = read_fd, write_fd

    def close(self) -> None:
        for fd in {self.read_fd, self.write_fd}:
            os.close(fd)
        self.read_fd = self.write_fd = -1


@pytest.fixture(params=["pipe", "unix", "tcp", "pty"])
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    if request.param == "pipe":
        (near_in, far_out), (far_in, near_out) = os.pipe(), os.pipe()
        made = Peer(PipeTransport(near_in, near_out), far_in, far_out)
    elif request.param == "pty":
        far, near = pty.openpty()
        tty.setraw(near)
        made = Peer(PipeTransport(near, near), far, far)
    elif request.param == "unix":
        one, other = socket.socketpair()
        fd = other.detach()
        made = Peer(SocketTransport(one), fd, fd)
    else:
        with socket.create_server(("127.0.0.1", 0)) as server:
            one = socket.create_connection(server.getsockname(), timeout=5)
            fd = server.accept()[0].detach()
        made = Peer(SocketTransport(one), fd, fd)
    yield made
    made.transport.close()
    if made.read_fd >= 0:
        made.close()


def test_bytes_go_both_ways(peer: Peer) -> None:
    data = bytes(range(256))
    peer.transport.write(data, soon())
    got = b""
    while len(got) < 256:
        got += os.read(peer.read_fd, 256)
    assert got == data
    os.write(peer.write_fd, data)
    got = b""
    while len(got) < 256:
        piece = peer.transport.read(100, soon())
        assert 1 <= len(piece) <= 100
        got += piece
    assert got == data


def test_read_waits_until_the_deadline_and_no_longer(peer: Peer) -> None:
    deadline = Deadline.after(0.1)
    assert peer.transport.read(10, deadline) == b""
    assert deadline.expired
    assert peer.transport.read(10, Deadline.after(-1)) == b""
    os.write(peer.write_fd, b"x")
    assert peer.transport.read(10, soon()) == b"x"


def test_read_returns_as_soon_as_something_comes(peer: Peer) -> None:
    timer = threading.Timer(0.05, os.write, (peer.write_fd, b"late"))
    timer.start()
    assert peer.transport.read(10, Deadline.after(86_400)) == b"late"
    timer.join()


def test_write_to_a_device_that_does_not_read_ends(peer: Peer) -> None:
    with pytest.raises(TargetError, match="does not take"):
        for _ in range(10_000):
            peer.transport.write(bytes(65536), Deadline.after(0.1))


def test_a_closed_end_is_an_error(peer: Peer) -> None:
    peer.close()
    with pytest.raises(TargetError, match="closed the connection"):
        peer.transport.read(10, soon())
    with pytest.raises(TargetError, match="closed the connection"):
        for _ in range(100):
            peer.transport.write(b"x", soon())


def test_after_close(peer: Peer) -> None:
    peer.transport.close()
    peer.transport.close()
    with pytest.raises(TargetError, match="closed here"):
        peer.transport.read(1, soon())
    with pytest.raises(TargetError, match="closed here"):
        peer.transport.write(b"x", soon())


def test_large_write_in_pieces(peer: Peer) -> None:
    data = os.urandom(500_000)
    got = bytearray()

    def drain() -> None:
        while len(got) < len(data):
            got.extend(os.read(peer.read_fd, 65536))

    thread = threading.Thread(target=drain)
    thread.start()
    peer.transport.write(data, Deadline.after(20))
    thread.join(20)
    assert bytes(got) == data


def test_loopback() -> None:
    clock = FakeClock()
    transport = LoopbackTransport(lambda data: data[::-1], idle=clock.sleep)
    deadline = Deadline.after(2, clock)
    transport.write(b"abc", deadline)
    assert transport.read(2, deadline) == b"cb"
    assert transport.read(2, deadline) == b"a"
    assert clock.now == 0
    assert transport.read(2, deadline) == b""
    assert clock.now == 2
    with pytest.raises(TargetError, match="deadline"):
        transport.write(b"abc", deadline)
    transport.close()
    with pytest.raises(TargetError, match="closed"):
        transport.read(1, deadline)
