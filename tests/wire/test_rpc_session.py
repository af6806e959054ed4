# SPDX-License-Identifier: Apache-2.0
"""Sessions with a fake device, over lines that lose, damage and double what they carry."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import msgspec
import numpy as np
import pytest

from measuring import measure
from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.testing.fake import FakeClock, FakeDevice, FakeTensor
from mlf_sdk.wire import frames, protocol
from mlf_sdk.wire.codes import (
    STATUS_TEXT,
    Capability,
    DeviceError,
    DeviceResetError,
    Direction,
    NoAnswerError,
    Opcode,
    SessionTakenError,
    Status,
)
from mlf_sdk.wire.device import TensorInfo
from mlf_sdk.wire.link import Timeouts
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import LoopbackTransport
from rpc_models import SUM, X, Y, fake_device, fake_models, numbers, session_over

FLOATS = np.linspace(-3, 3, 130, dtype=np.float32)


@pytest.fixture
def device() -> FakeDevice:
    return fake_device()


@pytest.fixture
def session(device: FakeDevice) -> Session:
    made = session_over(device.feed)
    made.hello()
    return made


# ---- descriptions -----------------------------------------------------------------------------


def test_hello_describes_all(session: Session) -> None:
    info = session.info
    assert (info.protocol_version, info.sdk_version, info.max_payload) == (2, "1.2.3", 512)
    assert (info.capabilities, info.boot_nonce, info.ticks_hz) == (Capability.TICKS, 0xB0070001, 1_000_000)
    twins, negate, sharer = info.models
    assert twins.archive_sha256 == bytes(range(32)).hex()
    assert (twins.name, twins.num_steps, twins.arena_bytes, twins.params_bytes) == ("twins", 3, 64, 16)
    assert (twins.inputs_kept, negate.inputs_kept, sharer.index) == (False, True, 2)
    assert [(t.name, t.shape, t.dtype, t.size_bytes) for t in twins.inputs] == [
        ("x", (2, 3), np.dtype("int16"), 12),
        ("y:0", (5,), np.dtype("uint8"), 5),
    ]
    assert [t.dtype for t in (*twins.outputs, *negate.outputs)] == [np.int32, np.uint8, np.float32]
    assert (negate.name, negate.name_cut, twins.name_cut) == ("ä" * 127, True, False)
    assert negate.outputs[0].name_cut


def test_a_model_is_found_by_index_name_or_description(session: Session) -> None:
    twins = session.info.models[0]
    assert session.model(0) is session.model("twins") is session.model(twins) is twins
    for key in (3, -1, "other", msgspec.structs.replace(twins, index=9)):
        with pytest.raises(InputError, match="no single model") as error:
            session.model(key)
        assert "twins" in error.value.hint


def test_a_name_that_two_models_have_finds_none() -> None:
    models = fake_models()
    session = session_over(FakeDevice([models[0], replace(models[2], name="twins")]).feed)
    session.hello()
    with pytest.raises(InputError, match="no single model 'twins'"):
        session.model("twins")
    assert session.model(1).index == 1


@pytest.mark.parametrize(("drawn", "number"), [(0, 1), (-1, 0xFFFFFFFF)])
def test_the_number_of_a_session_is_any_word_but_0(drawn: int, number: int) -> None:
    session = Session(LoopbackTransport(fake_device().feed), draw=lambda limit: drawn % limit)
    session.hello()
    link, _ = session.line
    assert link.session == number


def test_nothing_works_before_hello(device: FakeDevice) -> None:
    with pytest.raises(TargetError, match="no session") as error:
        session_over(device.feed).run(0)
    assert "hello" in error.value.hint


def test_a_device_without_models() -> None:
    info = session_over(FakeDevice([]).feed).hello()
    assert (info.models, info.sdk_version) == ((), "")


def test_a_tensor_that_cannot_be_described() -> None:
    with pytest.raises(DeviceError, match="CAPACITY") as error:
        session_over(fake_device(4).feed).hello()
    assert error.value.status == Status.CAPACITY
    assert "model 3, output 1" in str(error.value)


@pytest.mark.parametrize(
    ("code", "bits", "lanes", "shape", "size", "dtype"),
    [
        (0, 8, 1, (3,), 3, "int8"),
        (1, 1, 1, (3,), 3, "bool"),
        (1, 64, 1, (), 8, "uint64"),
        (2, 16, 1, (2, 2), 8, "float16"),
        (2, 64, 1, (0, 2), 0, "float64"),
        (4, 16, 1, (3,), 6, "uint16"),
        (0, 8, 4, (3,), 12, None),
        (0, 4, 1, (3,), 3, None),
        (2, 8, 1, (3,), 3, None),
        (3, 64, 1, (3,), 24, None),
        (0, 8, 1, (3,), 4, None),
    ],
)
def test_element_types(
    code: int, bits: int, lanes: int, shape: tuple[int, ...], size: int, dtype: str | None
) -> None:
    tensor = TensorInfo(
        direction=Direction.INPUT,
        index=1,
        name="n",
        shape=shape,
        type_code=code,
        bits=bits,
        lanes=lanes,
        size_bytes=size,
    )
    if dtype is None:
        with pytest.raises(TargetError, match=r"^input 1 \(n\): "):
            _ = tensor.dtype
    else:
        assert tensor.dtype == np.dtype(dtype)


# ---- inference --------------------------------------------------------------------------------


def test_inference_by_order_and_by_name(session: Session, device: FakeDevice) -> None:
    for inputs in ([X, Y], {"y:0": Y, "x": X}, {"0": X, "y:0": Y}):
        total, echo = session.infer("twins", inputs)
        np.testing.assert_array_equal(total, SUM)
        assert total.dtype == np.int32
        np.testing.assert_array_equal(echo, Y)
    assert device.runs == 3
    total[0, 0] = 5  # an array of its own


@pytest.mark.parametrize("max_payload", [64, 128, 512, 4096])
def test_tensors_larger_than_a_payload(max_payload: int) -> None:
    device = fake_device(max_payload=max_payload)
    session = session_over(device.feed)
    session.hello()
    (negative,) = session.infer(1, [FLOATS])
    np.testing.assert_array_equal(negative, -FLOATS)
    assert session.run(1, 5).runs == 5
    assert device.runs == 6
    np.testing.assert_array_equal(session.read_input(1, 0), FLOATS)


def test_arrays_of_any_layout(session: Session) -> None:
    strided = np.asfortranarray(X)
    session.write_input(0, 0, strided)
    np.testing.assert_array_equal(session.read_input(0, 0), X)
    session.write_input(0, 0, X.astype(">i2").astype("<i2"))
    with pytest.raises(InputError, match="was given for int16"):
        session.write_input(0, 0, X.astype(">i2"))


@pytest.mark.parametrize("array", [X.astype(np.int32), X.ravel(), X[:1], np.zeros((2, 3))])
def test_arrays_that_do_not_fit(session: Session, array: np.ndarray) -> None:
    with pytest.raises(InputError, match="was given for int16") as error:
        session.write_input(0, 0, array)
    assert error.value.where == "model 0 (twins), input 0 (x)"


def test_inputs_that_do_not_match(session: Session) -> None:
    with pytest.raises(InputError, match="1 inputs were given for 2"):
        session.infer(0, [X])
    with pytest.raises(InputError, match=r"no array for input 1 \(y:0\)"):
        session.infer(0, {"x": X})
    with pytest.raises(InputError, match="no input 'z'") as error:
        session.infer(0, {"x": X, "y:0": Y, "z": Y})
    assert "x, y:0" in error.value.hint


def test_numbers_out_of_range_are_not_sent(session: Session) -> None:
    for call in (
        lambda: session.write_input(0, 2, X),
        lambda: session.read_output(0, -1),
        lambda: session.read_input(0, 2),
        lambda: session.run(0, 0),
        lambda: session.run(1, 1 << 32),
        lambda: session.prepare(0, 256),
        lambda: session.prepare(0, -1),
    ):
        with pytest.raises(InputError):
            call()


def test_a_tensor_of_no_bytes() -> None:
    device = fake_device(1)
    model = device.models[0]
    model.inputs = (FakeTensor(name="none", offset=0, shape=(0, 4), size_bytes=0),)
    model.outputs = (FakeTensor(name="none", offset=0, shape=(0,), size_bytes=0),)
    model.run = lambda arena: None
    device.reset()
    session = session_over(device.feed)
    session.hello()
    (out,) = session.infer(0, [np.zeros((0, 4), np.uint8)])
    assert out.shape == (0,)


# ---- what the device refuses ------------------------------------------------------------------


def test_a_failing_step_is_named(session: Session) -> None:
    for value, status, step in ((0xEE, Status.KERNEL, 2), (0xDD, Status.WORKSPACE, 1)):
        bad = Y.copy()
        bad[0] = value
        with pytest.raises(DeviceError, match=rf"{STATUS_TEXT[status]} \(step {step}\)") as error:
            session.infer(0, [X, bad])
        assert (error.value.status, error.value.step, error.value.opcode) == (status, step, Opcode.RUN)
        assert error.value.where == "model 0 (twins)"
        assert error.value.exit_code == 4
    np.testing.assert_array_equal(session.infer(0, [X, Y])[0], SUM)


def test_inputs_that_are_used_up(session: Session) -> None:
    session.infer(0, [X, Y])
    with pytest.raises(DeviceError, match="STATE") as error:
        session.run(0)
    assert error.value.step is None
    session.write_input(0, 0, X)
    with pytest.raises(DeviceError, match="STATE"):
        session.read_output(0, 0)
    session.write_input(0, 1, Y)
    with pytest.raises(DeviceError, match="ARGUMENT"):
        session.run(0, 2)


def test_models_that_share_an_arena(session: Session) -> None:
    session.infer(0, [X, Y])
    session.write_input(2, 0, np.zeros(4, np.uint8))
    with pytest.raises(DeviceError, match="STATE"):
        session.read_output(0, 0)


def test_a_status_of_tomorrow(device: FakeDevice, session: Session) -> None:
    def refuse(payload: bytes) -> bytes:
        return frames.encode(bytes([2, payload[1] | 0x80]) + payload[2:8] + b"\x88more")

    session._link._transport = LoopbackTransport(lambda data: refuse(frames.decode(data.strip(b"\0"))))
    with pytest.raises(DeviceError, match="status -120, which this version"):
        session.run(0)


def test_a_device_of_another_version() -> None:
    def answer(data: bytes) -> bytes:
        payload = frames.decode(data.strip(b"\0"))
        status = Status.VERSION.to_bytes(1, "little", signed=True)
        return frames.encode(bytes([4, payload[1] | 0x80]) + payload[2:4] + status + b"\x03\x04")

    with pytest.raises(DeviceError, match="VERSION") as error:
        session_over(answer).hello()
    assert error.value.hint == "It speaks versions 3 to 4, this SDK 2."


@pytest.mark.parametrize("size", range(0, 24))
def test_a_malformed_reply_is_a_target_error(size: int) -> None:
    device = fake_device(1)

    def shorten(data: bytes) -> bytes:
        payload = frames.decode(device.feed(data).strip(b"\0"))
        return frames.encode(payload[: 9 + size])

    with pytest.raises(TargetError):
        session_over(shorten, hello_s=2).hello()


def forging(
    device: FakeDevice, opcode: int, change: Callable[[bytes], list[bytes]]
) -> Callable[[bytes], bytes]:
    """The device, with its replies to one kind of request replaced."""

    def answer(data: bytes) -> bytes:
        received = device.feed(data)
        payload = frames.decode(received.strip(b"\0"))
        if payload[1] != opcode | protocol.REPLY:
            return received
        return b"".join(frames.encode(forged) for forged in change(payload))

    return answer


def test_replies_that_are_none_are_passed_over(device: FakeDevice) -> None:
    def surround(payload: bytes) -> list[bytes]:
        other_number = payload[:2] + bytes([payload[2] ^ 1]) + payload[3:]
        other_version = b"\x01" + payload[1:]
        other_opcode = bytes([2, Opcode.READ | 0x80]) + payload[2:]
        other_session = payload[:4] + bytes([payload[4] ^ 1]) + payload[5:]
        others = (other_number, other_version, other_opcode, other_session)
        return [b"", b"\x02\x85", payload[:4], payload[:8], *others, payload]

    session = session_over(forging(device, Opcode.RUN, surround))
    session.hello()
    np.testing.assert_array_equal(session.infer(0, [X, Y])[0], SUM)


def test_a_read_of_another_size_is_an_error(device: FakeDevice) -> None:
    session = session_over(forging(device, Opcode.READ, lambda payload: [payload + b"x"]))
    session.hello()
    with pytest.raises(TargetError, match="sent 25 bytes instead of 24"):
        session.infer(0, [X, Y])


def test_an_answer_with_too_much_is_an_error(device: FakeDevice) -> None:
    session = session_over(forging(device, Opcode.PREPARE, lambda payload: [payload + b"x"]))
    session.hello()
    with pytest.raises(TargetError, match="PREPARE has a body"):
        session.prepare(0, 1)


def test_a_payload_size_that_cannot_work() -> None:
    with pytest.raises(TargetError, match="63 bytes"):
        session_over(FakeDevice([], max_payload=63).feed).hello()


# ---- measuring --------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [-1, 0, 1, 33, 0xFFFFFFFF, 1 << 32, (1 << 32) + 1])
def test_a_count_of_runs_fits_a_word(session: Session, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    link, _ = session.line
    reply = protocol.RunReply(protocol.NO_STEP, 7, 99).pack()
    asked: list[bytes] = []
    monkeypatch.setattr(link, "call", lambda opcode, body, until, where: asked.append(body) or reply)
    if 1 <= count <= 0xFFFFFFFF:
        assert session.run(0, count).ticks == 99
        assert asked == [protocol.RunRequest(0, count).pack()]
    else:
        with pytest.raises(InputError, match=f"cannot be run {count} times"):
            session.run(0, count)
        assert asked == []


@pytest.mark.parametrize("pattern", [0, 255])
def test_the_paint_may_be_any_byte(session: Session, device: FakeDevice, pattern: int) -> None:
    session.prepare(0, pattern)
    assert bytes(device.models[0].arena) == bytes([pattern]) * 64


@pytest.mark.parametrize("painted", range(4))
@pytest.mark.parametrize("guard", [0, 1, 3])
def test_each_part_of_stats_is_there_or_none(
    session: Session, monkeypatch: pytest.MonkeyPatch, painted: int, guard: int
) -> None:
    link, _ = session.line
    reply = protocol.StatsReply(painted, 11, 0, 0, 0, 0, 22, 5, guards=6, guard=guard)
    monkeypatch.setattr(link, "call", lambda *request, where: reply.pack())
    stats = session.stats(0)
    assert stats.arena_high_water_bytes == (11 if painted in (1, 3) else None)
    assert stats.stack_high_water_bytes == (22 if painted in (2, 3) else None)
    assert (stats.guards, stats.written_guard) == (6, {0: None, 1: 0, 3: 2}[guard])


def test_prepare_and_stats(session: Session) -> None:
    assert session.stats(0).arena_high_water_bytes is None
    session.prepare(0, 0xA5)
    assert session.stats(0).arena_high_water_bytes == 0
    session.infer(0, [X, Y])
    stats = session.stats(0)
    assert stats.arena_high_water_bytes == 53
    assert stats.workspace_high_water_bytes is stats.workspace_requests is stats.refused_bytes is None
    assert stats.stack_bytes is stats.stack_high_water_bytes is None
    assert stats.dropped_frames == 0
    session.prepare(0, int(Y[-1]))  # the paint hides the last byte that is written
    session.infer(0, [X, Y])
    assert session.stats(0).arena_high_water_bytes == 52


@pytest.mark.parametrize("last", [0x5A, 0xA5])
def test_measure_is_not_fooled_by_a_pattern(session: Session, device: FakeDevice, last: int) -> None:
    y = np.array([1, 2, 3, 4, last], np.uint8)
    measured = measure(session, "twins", [X, y])
    assert measured.stats.arena_high_water_bytes == 53
    assert measured.stats.stack_bytes is None
    np.testing.assert_array_equal(measured.outputs[1], y)
    assert measured.run.ticks == device.ticks_per_call
    assert device.runs == 2


# ---- bad lines --------------------------------------------------------------------------------


class Line:
    """A line that does something to the n-th piece it carries, in either direction."""

    def __init__(self, device: FakeDevice) -> None:
        self.device = device
        self.to_device: Callable[[bytes], bytes] = bytes
        self.to_host: Callable[[bytes], bytes] = bytes

    def __call__(self, data: bytes) -> bytes:
        received = self.device.feed(self.to_device(data))
        return self.to_host(received) if received else b""


@pytest.fixture
def line(device: FakeDevice) -> Line:
    return Line(device)


def once(change: Callable[[bytes], bytes], times: int = 1) -> Callable[[bytes], bytes]:
    left = [times]

    def apply(data: bytes) -> bytes:
        if left[0] == 0:
            return data
        left[0] -= 1
        return change(data)

    return apply


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "lost": lambda data: b"",
    "doubled": lambda data: data + data,
    "flipped": lambda data: data[:5] + bytes([data[5] ^ 4]) + data[6:],
    "cut": lambda data: data[:-3],
    "headless": lambda data: data[4:],
    "noise before": lambda data: b"\xff\x13\x80" + data,
    "text before": lambda data: b"interrupted by text\n" + data,
    "text inside": lambda data: data[:6] + b"text" + data[6:],
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("direction", ["to_device", "to_host"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_run_survives_damage_and_is_never_doubled(
    device: FakeDevice, line: Line, damage: str, direction: str, times: int
) -> None:
    session = session_over(line)
    session.hello()
    session.write_input(0, 0, X)
    session.write_input(0, 1, Y)
    setattr(line, direction, once(DAMAGE[damage], times))
    session.run(0)
    assert device.runs == 1
    np.testing.assert_array_equal(session.read_output(0, 0), SUM)


def test_every_request_survives_a_lost_reply(device: FakeDevice, line: Line) -> None:
    session = session_over(line)
    line.to_host = once(lambda data: b"")
    session.hello()
    for call in (
        lambda: session.write_input(0, 0, X),
        lambda: session.write_input(0, 1, Y),
        lambda: session.run(0),
        lambda: session.stats(0),
    ):
        line.to_host = once(lambda data: b"")
        call()
    np.testing.assert_array_equal(session.read_output(0, 0), SUM)
    assert device.runs == 1


def test_a_noisy_line_gives_no_wrong_result(device: FakeDevice, line: Line) -> None:
    draw = random.Random(7)

    def noisy(data: bytes) -> bytes:
        out = bytearray()
        for byte in data:
            kind = draw.random()
            if kind < 0.003:
                out.append(byte ^ 1 << draw.randrange(8))
            elif kind < 0.006:
                out += bytes([byte, byte])
            elif kind > 0.003 * 3:
                out.append(byte)
        return bytes(out)

    session = session_over(line, tries=30, back_off=1.0)
    session.hello()
    line.to_device = line.to_host = noisy
    for round_number in range(100):
        y = np.array([1, 2, 3, 4, round_number], np.uint8)
        assert (
            session.infer(
                0,
                [X, y],
            )[1].tolist()
            == y.tolist()
        )
        assert device.runs == round_number + 1
    assert device._dropped > 10


def test_no_answer_ends_after_the_tries(device: FakeDevice, line: Line) -> None:
    clock = FakeClock()
    sent = []

    def deaf(data: bytes) -> bytes:
        sent.append((clock.now, data))
        return b""

    session = Session(
        LoopbackTransport(lambda data: line(data), idle=clock.sleep),
        timeouts=Timeouts(first_try_s=1, back_off=2, tries=4, clock=clock),
        draw=numbers(),
    )
    session.hello()
    line.to_device = deaf
    with pytest.raises(NoAnswerError, match=r"did not answer WRITE \(sent 4 times\)") as error:
        session.write_input(0, 0, X)
    assert [at for at, _ in sent] == [0, 1, 3, 7]
    assert clock.now == 15
    assert len({data for _, data in sent}) == 4  # each with a number of its own
    assert len({frames.decode(data.strip(b"\0"))[4:] for _, data in sent}) == 1
    assert error.value.where == "model 0 (twins), input 0 (x)"
    assert error.value.hint == "It printed nothing."


def test_run_waits_for_its_deadline_with_back_off(device: FakeDevice, line: Line) -> None:
    clock = FakeClock()
    session = Session(
        LoopbackTransport(line, idle=clock.sleep), timeouts=Timeouts(clock=clock), draw=numbers()
    )
    session.hello()
    session.write_input(0, 0, X)
    session.write_input(0, 1, Y)
    line.to_host = lambda data: b""
    with pytest.raises(NoAnswerError, match=r"did not answer RUN \(sent 9 times\)"):
        session.run(0, deadline=session._link.after(200))
    assert clock.now == 200
    assert device.runs == 1


@pytest.mark.parametrize(
    ("opcode", "tries"), [(Opcode.RUN, 20), (Opcode.ADVANCE, 20), (Opcode.HELLO, 20), (Opcode.WRITE, 5)]
)
def test_what_takes_as_long_as_the_model_is_asked_until_its_deadline(opcode: Opcode, tries: int) -> None:
    assert len(list(islice(Timeouts().waits(opcode), 20))) == tries


def test_a_first_hello_may_be_repeated_sooner_than_other_requests() -> None:
    timeouts = Timeouts(first_try_s=0.5, hello_first_s=0.25)
    assert list(islice(timeouts.waits(Opcode.HELLO), 4)) == [0.25, 0.5, 1.0, 1.0]
    assert next(timeouts.waits(Opcode.WRITE)) == 0.5


def test_hello_waits_for_a_device_that_boots_late(device: FakeDevice) -> None:
    clock = FakeClock()
    session = Session(
        LoopbackTransport(lambda data: device.feed(data) if clock.now > 12 else b"", idle=clock.sleep),
        timeouts=Timeouts(clock=clock),
        draw=numbers(),
    )
    assert len(session.hello().models) == 3
    assert 12 < clock.now < 14


def test_a_deadline_bounds_all_tries(device: FakeDevice) -> None:
    clock = FakeClock()
    session = Session(
        LoopbackTransport(lambda data: b"", idle=clock.sleep), timeouts=Timeouts(clock=clock), draw=numbers()
    )
    with pytest.raises(NoAnswerError, match="HELLO"):
        session.hello(session._link.after(2.5))
    assert clock.now == 2.5
    with pytest.raises(NoAnswerError, match="sent 0 times"):
        session.hello(session._link.after(0))


def test_a_flood_does_not_outlast_the_deadline() -> None:
    clock = FakeClock()

    class Flood(LoopbackTransport):
        def read(self, max_bytes: int, deadline: object) -> bytes:
            clock.sleep(0.01)
            return frames.encode(b"\x02\x85\x00\x00\x00\x00\x00\x00\x00")

    session = Session(Flood(lambda data: b""), timeouts=Timeouts(clock=clock), draw=numbers())
    with pytest.raises(NoAnswerError):
        session.hello(session._link.after(3))
    assert clock.now < 3.1


def test_a_reset_is_noticed_and_a_new_hello_goes_on(device: FakeDevice, session: Session) -> None:
    session.write_input(0, 0, X)
    device.reset()
    device.boot_nonce = 77
    with pytest.raises(DeviceResetError, match="was reset before RUN"):
        session.run(0)
    assert device.runs == 0
    assert session.hello().boot_nonce == 77
    np.testing.assert_array_equal(session.infer(0, [X, Y])[0], SUM)


def test_a_reset_between_run_and_its_reply_is_no_second_run(device: FakeDevice, line: Line) -> None:
    session = session_over(line)
    session.hello()
    session.write_input(1, 0, FLOATS)

    def die(data: bytes) -> bytes:
        device.reset()
        return b""

    line.to_host = once(die)
    with pytest.raises(DeviceResetError):
        session.run(1)
    assert device.runs == 1


class SharedLine:
    """A line with several hosts: the device hears all of them, and each hears all that the device says."""

    def __init__(self, device: FakeDevice) -> None:
        self._device = device
        self._heard: list[bytearray] = []

    def host(self, first: int) -> Session:
        """Return the session of one more host, before its hello."""
        clock = FakeClock()
        mine = bytearray()
        self._heard.append(mine)

        def carry(data: bytes) -> bytes:
            said = self._device.feed(data)
            for heard in self._heard:
                heard += said
            out = bytes(mine)
            mine.clear()
            return out

        line = LoopbackTransport(carry, idle=clock.sleep)
        return Session(line, timeouts=Timeouts(clock=clock), draw=numbers(first))


@pytest.mark.parametrize("number", [1, 20, 400, 40_000, 64_000])
def test_a_second_host_gives_no_wrong_answer(device: FakeDevice, number: int) -> None:
    """Whatever its sequence numbers are, the first host is told, and the second one's answers are right."""
    line = SharedLine(device)
    first, second = line.host(300), line.host(300 + number)
    other = Y[::-1].copy()
    first.hello()
    first.write_input(0, 0, X)
    first.write_input(0, 1, Y)
    second.hello()
    second.write_input(0, 0, X)
    second.write_input(0, 1, other)
    for call in (
        lambda: first.run(0),
        lambda: first.read_output(0, 1),
        lambda: first.write_input(0, 1, Y),
        lambda: first.stats(0),
    ):
        with pytest.raises(SessionTakenError, match="another host has started a session") as error:
            call()
        assert "End the other program" in error.value.hint
    second.run(0)
    np.testing.assert_array_equal(second.read_output(0, 1), other)
    assert device.runs == 1


@pytest.mark.parametrize("opcode", [Opcode.HELLO, Opcode.RUN, Opcode.READ, Opcode.WRITE])
def test_a_replayed_reply_is_refused(device: FakeDevice, opcode: Opcode) -> None:
    """Replies of an earlier session with the very same sequence numbers, each before the right one."""
    recorded: list[bytes] = []

    def record(data: bytes) -> bytes:
        recorded.append(device.feed(data))
        return recorded[-1]

    first = Session(LoopbackTransport(record), draw=numbers(1000))
    first.hello()
    first.infer(0, [X, Y[::-1].copy()])
    replays = iter(recorded)
    replayed = 0

    def replay(data: bytes) -> bytes:
        nonlocal replayed
        old, real = next(replays), device.feed(data)
        same = frames.decode(old.strip(b"\0"))[:4] == frames.decode(real.strip(b"\0"))[:4]
        assert same
        if frames.decode(real.strip(b"\0"))[1] == opcode | protocol.REPLY:
            replayed += 1
            return old + real
        return real

    draws = iter([1000, 5])  # the same sequence numbers, another session
    session = Session(LoopbackTransport(replay), draw=lambda limit: next(draws))
    session.hello()
    total, echo = session.infer(0, [X, Y])
    np.testing.assert_array_equal(total, SUM)
    np.testing.assert_array_equal(echo, Y)
    assert replayed


@pytest.mark.parametrize(
    "change",
    [
        {"opcode": Opcode.STATS | protocol.REPLY},
        {"opcode": int(Opcode.RUN)},
        {"sequence": 4},
        {"session": 77},
        {"body": b""},
    ],
    ids=str,
)
def test_a_reply_to_another_request_is_passed_over(device: FakeDevice, change: dict[str, object]) -> None:
    """It comes before the right one, and says that the model ran 99 times."""
    inserted = 0

    def feed(data: bytes) -> bytes:
        nonlocal inserted
        real = device.feed(data)
        reply = protocol.Message.unpack(frames.decode(real.strip(b"\0")))
        if reply.opcode != Opcode.RUN | protocol.REPLY:
            return real
        inserted += 1
        said = msgspec.structs.replace(protocol.RunReply.unpack(reply.body[1:]), runs=99)
        other = msgspec.structs.replace(reply, **{"body": reply.body[:1] + said.pack(), **change})  # type: ignore[arg-type]
        return frames.encode(other.pack()) + real

    session = session_over(feed)
    session.hello()
    session.write_input(1, 0, FLOATS)
    assert session.run(1).runs == 1 and inserted == 1


# ---- console ----------------------------------------------------------------------------------


def test_console_text_is_collected_and_handed_over(device: FakeDevice, line: Line) -> None:
    pieces: list[str] = []
    session = session_over(line, console=pieces.append)
    line.to_host = once(lambda data: b"booting\r\n" + data + "größe\n".encode())
    session.hello()
    assert session.console_text == "".join(pieces) == "booting\ngröße\n"


def test_a_fault_report_is_part_of_the_error(device: FakeDevice, line: Line) -> None:
    session = session_over(line)
    session.hello()
    session.write_input(0, 0, X)
    session.write_input(0, 1, Y)
    line.to_host = once(lambda data: b"HardFault at 0x1234\nstep 3\n")
    line.to_device = once(bytes)
    answered = line.device.feed
    calls = iter([answered])
    line.device.feed = lambda data: next(calls, lambda data: b"")(data)  # type: ignore[method-assign]
    with pytest.raises(NoAnswerError) as error:
        session.run(0)
    assert error.value.hint.endswith("The last it printed:\nHardFault at 0x1234\nstep 3")


def test_the_session_closes_its_transport(device: FakeDevice) -> None:
    with session_over(device.feed) as session:
        session.hello()
    with pytest.raises(TargetError, match="closed"):
        session.run(0)


def test_numbers_differ_between_sessions(device: FakeDevice) -> None:
    sent: list[bytes] = []

    def record(data: bytes) -> bytes:
        sent.append(data)
        return device.feed(data)

    for _ in range(2):
        Session(LoopbackTransport(record)).hello()
    hellos = [data for data in sent if frames.decode(data.strip(b"\0"))[1] == Opcode.HELLO]
    assert len(hellos) == 2 and hellos[0] != hellos[1]
