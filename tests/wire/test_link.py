# SPDX-License-Identifier: Apache-2.0
"""One request and its reply: waits on a rated line, what is no reply, what errors say, faults on the console."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mlf_sdk.testing.fake import FakeClock
from mlf_sdk.triage.fault_report import parse_fault
from mlf_sdk.wire import frames, protocol
from mlf_sdk.wire.codes import DeviceError, DeviceFaultError, NoAnswerError, Opcode, Status
from mlf_sdk.wire.link import Link, Timeouts
from mlf_sdk.wire.protocol import Message
from mlf_sdk.wire.transport import LoopbackTransport, RatedTransport

FAULT = b"mlf-fault: busfault pc=00000123 lr=00000456 step=2 model=twins\n"


class RatedLine(LoopbackTransport):
    """A line of 100 bits a second."""

    baud = 100

    def set_baud(self, baud: int) -> None:
        raise NotImplementedError


def link_to(
    device: Callable[[bytes], bytes],
    *,
    rated: bool = False,
    started_s: float = 0.0,
    console: Callable[[str], None] | None = None,
) -> Link:
    """A link of session 7, whose first request has the number 500."""
    clock = FakeClock()
    clock.now = started_s
    transport = (RatedLine if rated else LoopbackTransport)(device, idle=clock.sleep)
    link = Link(transport, Timeouts(first_try_s=1, tries=3, clock=clock), console=console, sequence=500)
    link.session = 7
    return link


def reply(body: bytes, *, opcode: int = Opcode.STATS, sequence: int = 500, session: int = 7) -> bytes:
    message = Message(opcode=opcode | protocol.REPLY, sequence=sequence, session=session, body=body)
    return frames.encode(message.pack())


def test_waits_begin_when_the_request_is_on_the_line() -> None:
    sent: list[tuple[float, int]] = []

    def deaf(data: bytes) -> bytes:
        sent.append((link.timeouts.clock(), len(data)))
        return b""

    link = link_to(deaf, rated=True)
    assert isinstance(link._transport, RatedTransport)
    with pytest.raises(NoAnswerError):
        link.call(Opcode.STATS, b"x", link.after(100))
    on_line_s = sent[0][1] * 10 / 100
    assert [at for at, _ in sent] == pytest.approx([0, 1 + on_line_s, 3 + 2 * on_line_s])


def test_time_that_was_waited_is_from_the_request_on() -> None:
    link = link_to(lambda data: b"", started_s=1000.0)
    with pytest.raises(NoAnswerError, match=r"did not answer STATS \(sent 3 times\) within 7.0 s"):
        link.call(Opcode.STATS, b"", link.after(100))


@pytest.mark.parametrize("session", [6, 8])
def test_a_next_reply_is_of_this_session(session: int) -> None:
    link = link_to(lambda data: reply(b"\0no", session=session) + reply(b"\0yes"))
    link.post(Opcode.STATS, b"", link.after(10))
    found = link.next_reply(link.after(10), "")
    assert found is not None and found.body == b"\0yes"


@pytest.mark.parametrize(
    ("opcode", "late", "advice"),
    [
        (Opcode.RUN, False, "Allow more time (--timeout) if the model"),
        (Opcode.ADVANCE, True, "Allow more time (--timeout) if the model"),
        (Opcode.WRITE, True, "The time for all of it ran out"),
        (Opcode.WRITE, False, "It printed nothing."),
        (Opcode.HELLO, True, "It printed nothing."),
    ],
)
def test_advice_when_no_answer_comes(opcode: Opcode, late: bool, advice: str) -> None:
    error = link_to(lambda data: b"").no_answer(opcode, 1, 0.0, "", late=late)
    assert error.hint.startswith(advice)


@pytest.mark.parametrize(("opcode", "named"), [(Opcode.RUN, 3), (Opcode.ADVANCE, 3), (Opcode.WRITE, None)])
@pytest.mark.parametrize("step", [3, protocol.NO_STEP])
def test_a_step_is_named_where_one_failed(opcode: Opcode, named: int | None, step: int) -> None:
    body = Status.KERNEL.to_bytes(1, "little", signed=True) + step.to_bytes(4, "little", signed=True)
    link = link_to(lambda data: reply(body, opcode=opcode))
    with pytest.raises(DeviceError) as caught:
        link.call(opcode, b"", link.after(10))
    assert caught.value.step == (named if step == 3 else None)


def refusal(opcode: int, sequence: int, status: Status) -> bytes:
    return frames.encode(protocol.VersionReply(9, opcode | protocol.REPLY, sequence, status, 8, 9).pack())


@pytest.mark.parametrize(
    "noise",
    [
        refusal(Opcode.HELLO, 499, Status.VERSION),
        refusal(Opcode.HELLO, 501, Status.VERSION),
        refusal(Opcode.HELLO - 1, 500, Status.VERSION),
        refusal(Opcode.HELLO + 1, 500, Status.VERSION),
        refusal(Opcode.HELLO, 500, Status.OK),
        refusal(Opcode.HELLO, 500, Status.OPCODE),
        frames.encode(b"short"),
    ],
)
def test_a_refusal_of_the_version_answers_this_very_hello(noise: bytes) -> None:
    link = link_to(lambda data: noise + reply(b"\0hello", opcode=Opcode.HELLO))
    assert link.call(Opcode.HELLO, b"", link.after(10)) == b"hello"
    link = link_to(lambda data: noise + refusal(Opcode.HELLO, 500, Status.VERSION))
    with pytest.raises(DeviceError, match="VERSION") as caught:
        link.call(Opcode.HELLO, b"", link.after(10))
    assert "It speaks versions 8 to 9" in caught.value.hint


def test_a_refusal_of_the_version_answers_no_other_request() -> None:
    link = link_to(lambda data: refusal(Opcode.STATS, 500, Status.VERSION) + reply(b"\0yes"))
    assert link.call(Opcode.STATS, b"", link.after(10)) == b"yes"


@pytest.mark.parametrize("status", [1, 127])
def test_a_status_that_no_version_has_is_an_error(status: int) -> None:
    link = link_to(lambda data: reply(bytes([status])))
    with pytest.raises(DeviceError, match=f"STATS.*{status}|{status}.*STATS"):
        link.call(Opcode.STATS, b"", link.after(10))


@pytest.mark.parametrize(
    ("line", "where", "hint"),
    [
        (FAULT, "model twins", "Run it on the board 'host' as well"),
        (b"mlf-fault: abort step=-1 model=-\n", "", ""),
    ],
)
def test_a_fault_names_its_model_and_what_to_do_about_an_access(line: bytes, where: str, hint: str) -> None:
    fault = parse_fault(line)
    assert fault is not None
    error = DeviceFaultError(fault)
    assert (error.where, error.hint.partition(":")[0]) == (where, hint)


@pytest.mark.parametrize("before", [b"", b"text\n" * 2000])
def test_a_fault_on_the_console_ends_a_call_at_once(before: bytes) -> None:
    link = link_to(lambda data: before + FAULT)
    with pytest.raises(DeviceFaultError) as caught:
        link.call(Opcode.RUN, b"", link.after(100), where="model 0")
    assert (caught.value.fault.kind, caught.value.fault.step, caught.value.where) == (
        "busfault",
        2,
        "model 0",
    )
    assert link.timeouts.clock() <= 2
    assert link.next_reply(link.after(1), "") is None  # it is told once


def test_a_fault_that_comes_in_pieces_is_one() -> None:
    pieces = iter([b"text\n" * 500 + FAULT[:20], FAULT[20:40], FAULT[40:]])
    link = link_to(lambda data: next(pieces))
    with pytest.raises(DeviceFaultError) as caught:
        link.call(Opcode.STATS, b"", link.after(100))
    assert caught.value.fault.kind == "busfault"


@pytest.mark.parametrize(("text", "said"), [(b"!", "!"), (b"I\x02 am gone", r"I\x02 am gone")])
def test_last_words_hold_what_a_frame_may_begin_with(text: bytes, said: str) -> None:
    """When nothing follows for as long as all tries take, no frame is under way."""
    pieces = iter([text])
    link = link_to(lambda data: next(pieces, b""))
    with pytest.raises(NoAnswerError) as caught:
        link.call(Opcode.STATS, b"", link.after(100))
    assert caught.value.hint == f"The last it printed:\n{said}"


def test_text_is_handed_over_when_the_device_pauses() -> None:
    """Not where a read happens to end, which may be within a line."""
    heard: list[str] = []
    text = "a line of the application\n" * 400
    link = link_to(lambda data: text.encode(), console=heard.append)
    link.post(Opcode.STATS, b"", link.after(10))
    assert link.next_reply(link.after(10), "") is None
    assert heard == [text]


def test_last_words_are_the_end_of_a_long_text() -> None:
    link = link_to(lambda data: b"0123456789\n" * 1000 + b"the end\n")
    with pytest.raises(NoAnswerError) as caught:
        link.call(Opcode.STATS, b"", link.after(100))
    said = caught.value.hint.partition("The last it printed:\n")[2]
    assert said.endswith("the end") and 1900 < len(said) <= 2000
    assert len(link._recent) == 2000


def test_last_words_are_so_many_characters() -> None:
    link = link_to(lambda data: b"x" * 3000)
    with pytest.raises(NoAnswerError) as caught:
        link.call(Opcode.STATS, b"", link.after(100))
    assert caught.value.hint == "The last it printed:\n" + "x" * 2000
