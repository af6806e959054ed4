# SPDX-License-Identifier: Apache-2.0
"""A kernel that calls through a computed address: its stack has no bound, and nothing says it has. One that calls
through a constant table has a bound, also in an image with constructors."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from archives import Spec, build, reference, sample, write
from cli_helpers import Caller
from injected import KERNEL, MEMBER

pytestmark = [pytest.mark.toolchain, pytest.mark.qemu, pytest.mark.usefixtures("needs_qemu")]

BOARD = "mps2-an386"
COMPUTED = """
typedef float (*unary)(float);
__attribute__((noinline)) static float deep(float v) {
  volatile float frame[1024];
  for (int32_t i = 0; i < 1024; i += 16) {
    frame[i] = v;
  }
  return frame[(int32_t)v & 1008] * 1.0f;
}
__attribute__((noinline)) static float flat(float v) { return v; }
unary volatile other = flat;
static volatile uintptr_t half;
__attribute__((noinline)) static float passed(float v) {
  uintptr_t address = (uintptr_t)deep ^ 0x5a5a5a5au;
  __asm volatile("" : "+r"(address));
  half = address;
  return ((unary)(half ^ 0x5a5a5a5au))(v) + 0.0f * other(v);
}

"""

CONSTRUCTED = """
typedef float (*unary)(float);
static volatile float started;
__attribute__((constructor)) static void startup(void) { started = 1.0f; }
__attribute__((section(".data.rel.ro.late"), used)) static const int32_t late[3] = {1, 2, 3};
__attribute__((noinline)) static float deep(float v) {
  volatile float frame[64];
  frame[(int32_t)v & 63] = v;
  return frame[(int32_t)v & 63] * started;
}
__attribute__((noinline)) static float flat(float v) { return v; }
static const unary table[2] = {deep, flat};
__attribute__((noinline)) static float passed(float v) {
  return table[(int32_t)v & 1](v) + 0.0f * (float)late[(int32_t)v & 1];
}

"""


def archive_with(functions: str, path: Path) -> Path:
    """Write the tiny archive with functions before a kernel, whose results go through the one called passed."""
    files = build(Spec())
    text = files[MEMBER].decode()
    top = text.rindex("\n\n", 0, text.index(KERNEL + "(")) + 2
    text = text[:top] + functions + text[top:]
    at = text.index("((float*)out)[i] = ", text.index(KERNEL + "("))
    text = text[:at] + text[at:].replace("= ", "= passed(", 1).replace(";", ");", 1)
    return write({**files, MEMBER: text.encode()}, path)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(capsys)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archive_with(COMPUTED, tmp_path_factory.mktemp("computed") / "computed.tar")


def test_no_bound_is_claimed(archive: Path, call: Caller) -> None:
    x = sample(Spec())
    report = mlf_sdk.run(archive, board=BOARD, inputs={"x": x}, expect={"0": reference(Spec(), x)})
    row = next(row for row in report.check.rows if row.item == "stack")
    assert row.state == "unproven" and row.planned is None and row.measured is not None
    assert row.measured > 4096  # what a bound from other functions would not hold
    assert "passed calls through a pointer" in row.note
    assert report.compare is not None and report.compare.ok and report.ok
    called = call("run", archive, "--board", BOARD)
    assert called.code == 0 and "PASS, but nothing proves: stack" in called.out
    called = call("run", archive, "--board", BOARD, "--strict", "--json")
    assert called.code == 1 and called.value["check"]["unproven"] == ["stack"]


def test_test_and_proof_are_strict(archive: Path, call: Caller, tmp_path: Path) -> None:
    cases, junit, table = tmp_path / "cases.npz", tmp_path / "r.xml", tmp_path / "proof.md"
    np.savez(cases, x=sample(Spec())[np.newaxis], **{"0": reference(Spec(), sample(Spec()))[np.newaxis]})
    argv = ["test", archive, "--cases", cases, "--board", BOARD, "--junit", junit]
    for strict, code, tag in (([], 1, "failure"), (["--no-strict"], 0, "skipped")):
        called = call(*argv, *strict)
        assert called.code == code and "stack unproven: no bound" in called.out
        suite = ET.parse(junit).getroot()[0]
        [bad] = [case for case in suite.iter("testcase") if len(case)]
        assert (bad.attrib["name"], bad[0].tag) == ("image: stack", tag)
        assert "calls through a pointer" in bad[0].attrib["message"]
    argv = ["proof", archive, "--board", BOARD, "--markdown", table]
    called = call(*argv, "--json")
    assert called.code == 1 and called.value["counts"]["unproven"] == 1
    assert "| computed.tar | unproven |" in table.read_text()


def test_calls_through_constants_beside_constructors(tmp_path: Path) -> None:
    """What objects flag writable, but lies in flash, must not make the constants look as if they could change."""
    x = sample(Spec())
    source = archive_with(CONSTRUCTED, tmp_path / "constructed.tar")
    report = mlf_sdk.run(source, board=BOARD, inputs={"x": x}, expect={"0": reference(Spec(), x)}, twin=False)
    assert report.ok and report.compare is not None and report.compare.ok  # the constructor ran
    rows = [row for row in report.check.rows if row.item in ("stack", "run stack")]
    assert rows and all(row.state == "proven" for row in rows), rows
    assert all(row.planned is not None and row.planned > 64 * 4 for row in rows)
