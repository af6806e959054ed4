# SPDX-License-Identifier: Apache-2.0
"""Survey of a model before it is compiled: operators, needs, boards, and everything that is not supported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mlf_sdk
from cli_helpers import Caller
from mlf_sdk.compiler.survey import least_activations
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.pipeline.survey import ModelSurvey
from onnx_models import OnnxMaker, convolutional
from tflite_models import Maker, small_network


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "small.tflite"
    path.write_bytes(small_network())
    return path


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Caller:
    monkeypatch.setenv("COLUMNS", "160")
    return Caller(capsys)


def refused_model(path: Path) -> Path:
    """A convolution, two operators that are not supported, one behind the first of them."""
    m = Maker(5)
    x = m.input((1, 6, 6, 4))
    good = m.conv(x, 4, (3, 3), 1, same=True)
    first = m.spec.add("SIN", (good,), m.activation((1, 6, 6, 4)))
    behind = m.logistic(first)
    second = m.spec.add("COS", (good,), m.activation((1, 6, 6, 4)))
    path.write_bytes(m.finish(behind, second))
    return path


def test_operators_and_totals(network: Path, call: Caller) -> None:
    found = call("inspect", network, "--json").value
    kinds = [one["kind"] for one in found["operators"]]
    assert kinds[:3] == ["CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D"] and kinds[-1] == "SOFTMAX"
    first = found["operators"][0]
    assert first["macs"] == 12 * 10 * 8 * 27 and first["weights_bytes"] == 8 * 27 + 8 * 4
    assert first["shapes"] == [[1, 12, 10, 3], [1, 12, 10, 8]] and first["dtype"] == "int8"
    assert found["macs"] == sum(one["macs"] for one in found["operators"])
    assert found["weights_bytes"] == sum(one["weights_bytes"] for one in found["operators"])
    assert found["inputs"][0]["scale"] and found["faults"] == []


def test_needs_are_those_of_the_compiled_model(network: Path, call: Caller) -> None:
    found = call("inspect", network, "--json").value
    lock = call("run", network, "--board", "mps2-an386", "--json").value
    assert found["plan"]["arena_bytes"] == lock["memory"]["arena_bytes"] >= found["least_ram_bytes"]
    assert found["plan"]["params_bytes"] == lock["memory"]["params_bytes"]


def test_least_activations(tmp_path: Path) -> None:
    """A sum of two branches needs its input, or both operands, and nothing beside."""
    m = Maker(2)
    x = m.input((1, 8, 8, 4))
    wide = m.conv(x, 16, (1, 1), 1, same=True)
    narrow = m.conv(x, 16, (3, 3), 1, same=True)
    path = tmp_path / "m.tflite"
    path.write_bytes(m.finish(m.binary("ADD", wide, narrow)))
    assert least_activations(load_tflite(path)) == 2 * 8 * 8 * 16


def test_boards_that_hold_it(tmp_path: Path, call: Caller) -> None:
    m = Maker(3)
    x = m.input((1, 64, 64, 8))
    path = tmp_path / "wide.tflite"
    path.write_bytes(m.finish(m.conv(x, 8, (3, 3), 1, same=True)))
    rooms = {room["board"]: room for room in call("inspect", path, "--json").value["boards"]}
    assert rooms["mps2-an386"]["holds"] and not rooms["microbit"]["holds"]
    assert "ram has 16,384: " in rooms["microbit"]["why"]
    text = call("inspect", path).out
    assert re.search(r"too small  (?:\S+: .*\n\s+)*microbit: ", text)
    assert "mps2-an385" in text.split("fits       ")[1].split("too small")[0]
    assert "it can be compiled  PASS" in text


@pytest.mark.parametrize("choice", [(), ("--stream",), ("--for", "ram", "--stream")])
def test_inspect_counts_as_run_does(choice: tuple[str, ...], tmp_path: Path, call: Caller) -> None:
    """Arena, states, stack, server: the same parts and the same missing bytes, and one verdict."""
    m = Maker(3)
    x = m.input((1, 64, 64, 8))
    y = m.conv(x, 8, (3, 3), 1, same=True)
    path = tmp_path / "wide.tflite"
    path.write_bytes(m.finish(m.conv(y, 8, (1, 1), 1, same=True)))
    asked = call("inspect", path, "--board", "microbit", *choice, "--json")
    (room,) = asked.value["boards"]
    ran = call("run", path, "--board", "microbit", *choice, "--json")
    assert (asked.code, ran.code) == (1, 2) and not asked.value["ok"] and not room["holds"]
    assert ran.value["error"]["what"] == f"it does not fit: {room['why']}"
    needs, has, missing = (
        int(number.replace(",", "")) for number in re.findall(r"(?:least|has|:) ([\d,]+)", room["why"])
    )
    assert needs - has == missing > 0 and has == 16384
    parts = re.findall(r"(arena|states|stack|RPC server|parameters) ([\d,]+)", room["why"])
    assert sum(int(size.replace(",", "")) for _, size in parts) == needs
    text = call("inspect", path, "--board", "microbit", *choice).out
    assert "and does not fit microbit  FAIL" in text and "it fits" not in text


def test_a_board_that_holds_it(network: Path, call: Caller) -> None:
    done = call("inspect", network, "--board", "microbit")
    assert done.code == 0 and "it can be compiled, and fits microbit  PASS" in done.out
    chip = call("inspect", network, "--board", "microbit", "--json").value["chip"]
    assert chip["fits"] and chip["ram_bytes"] == 16384  # of the board: parts of that name have 32768 too


def test_everything_that_is_not_supported_at_once(tmp_path: Path, call: Caller) -> None:
    result = call("inspect", refused_model(tmp_path / "refused.tflite"), "--json")
    assert result.code == 1
    found = result.value
    notes = {one["kind"]: one["note"] for one in found["operators"]}
    assert notes == {
        "CONV_2D": "", "SIN": "not supported", "LOGISTIC": "behind one that is not supported",
        "COS": "not supported",
    }  # fmt: skip
    assert [fault.split(": ")[0].split(" (")[0] for fault in found["faults"]] == [
        "operator 1 SIN",
        "operator 3 COS",
    ]
    assert found["plan"] is None and found["boards"] == []
    text = call("inspect", tmp_path / "refused.tflite").out
    assert "it can't be compiled: 2 faults  FAIL" in text


def test_from_python(network: Path) -> None:
    found = mlf_sdk.inspect(network)
    assert isinstance(found, ModelSurvey) and found.ok
    assert found.survey.macs == sum(one.macs or 0 for one in found.survey.operators)


def test_the_plan_of_a_model_is_still_shown(network: Path, call: Caller) -> None:
    assert "graph executor, 8 steps" in call("inspect", network, "--plan").out


def test_a_damaged_model(network: Path, tmp_path: Path, call: Caller) -> None:
    path = tmp_path / "cut.tflite"
    path.write_bytes(network.read_bytes()[:400])
    assert call("inspect", path).code == 2


def test_onnx_nodes_that_are_not_supported_at_once(tmp_path: Path, call: Caller) -> None:
    m = OnnxMaker(6)
    x = m.input(1, 3, 8, 8)
    good = m.add("Conv", x, m.weights(4, 3, 3, 3))
    first = m.add("Unique", m.add("Flatten", good), outputs=1)
    behind = m.add("Relu", first)
    second = m.add("Missing", good)
    path = m.save(tmp_path / "refused.onnx", behind, second)
    result = call("inspect", path, "--json")
    assert result.code == 1
    found = result.value
    rows = {one["kind"]: one for one in found["operators"] if one["kind"] != "Transpose"}
    assert rows["Unique"]["note"] == rows["Missing"]["note"] == "not supported"
    assert rows["Relu"]["note"] == "behind one that is not supported"
    assert rows["Unique"]["detail"] == "'/Unique_3'" and rows["Unique"]["number"] == 2
    assert rows["Conv"]["macs"] == found["macs"] == 6 * 6 * 4 * 27
    assert rows["Conv"]["weights_bytes"] >= 4 * 4 * 27
    assert [fault.split(": ")[0] for fault in found["faults"]] == [
        "node 2 Unique ('/Unique_3')",
        "node 4 Missing ('/Missing_5')",
    ]
    assert "it can't be compiled: 2 faults  FAIL" in call("inspect", path).out


def test_onnx_operators_and_needs(tmp_path: Path, call: Caller) -> None:
    m = convolutional()
    found = call("inspect", m.save(tmp_path / "m.onnx", "softmax16"), "--json").value
    assert found["ok"] and found["plan"]["arena_bytes"] >= found["least_ram_bytes"] > 0
    assert found["macs"] == sum(one["macs"] for one in found["operators"]) > 0
    numbers = [one["number"] for one in found["operators"]]
    assert numbers == sorted(numbers) and numbers[-1] == len(m.nodes) - 1
