# SPDX-License-Identifier: Apache-2.0
"""``generate --app mlperf``: what fits a benchmark, what is refused, and what the files say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ccode
import mlf_sdk
from cli_helpers import Caller
from mlf_sdk.errors import InputError
from toy_format import toy_frontend, write_toy

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples/digits/digits-aotc-tvm0.11.1.tar"
CODE = "---\nint run(void *x, void *y) { *(char *)y = *(const char *)x; return 0; }\n"
SIZES = {"ic01": (3072, 10), "vww01": (27648, 2), "kws01": (490, 12), "ad01": (640, 640)}


@pytest.fixture(autouse=True)
def _toys(needs_host: None) -> Iterator[None]:
    with toy_frontend():
        yield


def toy(folder: Path, taken: str, given: str, elements: tuple[int, int]) -> Path:
    """A model of the given types and sizes, whose file states no quantisation."""
    head = f"toy 1\ninput x {taken} {elements[0]}\noutput y {given} {elements[1]}\n"
    return write_toy(folder / "model.toy", head + CODE)


def main_c(folder: Path, model: Path, **options: Any) -> str:
    mlf_sdk.generate(model, folder / "app", **{"board": "mps2-an386", "app": "mlperf", **options})
    return (folder / "app/src/main.c").read_text()


def values(text: str) -> dict[str, str]:
    """The fields that main.c sets."""
    found = dict(re.findall(r"\.(\w+) = ([^\n]+),\n", text))
    return found | dict(re.findall(r"(outputs|buffer)\[(?:.*)\] ?(?:=|__)([^\n;]*)", text))


@pytest.mark.parametrize(
    ("id_", "taken", "given", "load", "results"),
    [
        ("ic01", "int8", "int8", "minus_128", "values"),
        ("ic01", "uint8", "uint8", "copy", "values"),
        ("vww01", "float32", "float32", "float", "values"),
        ("kws01", "int8", "int8", "copy", "values"),
        ("kws01", "float32", "float32", "float", "values"),
        ("ad01", "float32", "float32", "copy", "error"),
        ("own.1", "int16", "int8", "copy", "values"),
    ],
)
def test_inputs_and_results(
    id_: str, taken: str, given: str, load: str, results: str, tmp_path: Path
) -> None:
    model = toy(tmp_path, taken, given, SIZES.get(id_, (7, 3)))
    text = main_c(tmp_path, model, mlperf_id=id_)
    found = values(text)
    assert found["id"] == f'"{id_}"'
    assert found["load"] == f"mlf_mlperf_load_{load}"
    assert found["results"] == f"mlf_mlperf_results_{results}"
    size = {"ic01": 3072, "vww01": 27648, "kws01": 490, "ad01": 2560, "own.1": 14}[id_]
    assert f"static uint8_t buffer[{size}] " in text


def test_scales(tmp_path: Path) -> None:
    """Probabilities of 8 bits are what TensorFlow Lite makes them, unless a quantisation is stated."""
    model = toy(tmp_path, "float32", "int8", SIZES["kws01"])
    found = values(main_c(tmp_path, model, mlperf_id="kws01"))
    assert found["sent"] == "{5.847029000e-01f, 83}"
    assert "{3.906250000e-03f, -128}" in main_c(tmp_path, model, mlperf_id="kws01")
    stated = main_c(tmp_path / "2", model, mlperf_id="kws01", quantisation=("y=0.25,-3",))
    assert "{2.500000000e-01f, -3}" in stated


def test_the_error_needs_both_scales(tmp_path: Path) -> None:
    model = toy(tmp_path, "int8", "int8", SIZES["ad01"])
    for given, missing in (((), "x"), (("x=0.39,89",), "y")):
        with pytest.raises(InputError, match=f"does not state the quantisation of '{missing}'") as error:
            main_c(tmp_path, model, mlperf_id="ad01", quantisation=given)
        assert f"--quantisation {missing}=SCALE,ZERO_POINT" in error.value.hint
    found = main_c(tmp_path, model, mlperf_id="ad01", quantisation=("x=0.39,89", "y=0.36,96"))
    assert values(found)["input"] == "{3.900000000e-01f, 89}"
    assert values(found)["load"] == "mlf_mlperf_load_quantised"
    assert "{3.600000000e-01f, 96}" in found


@pytest.mark.parametrize(
    ("id_", "taken", "given", "elements", "what"),
    [
        ("kws01", "int8", "int8", (491, 12), "input 'x' has 491 elements, the benchmark's 490"),
        ("kws01", "int8", "int8", (490, 10), "output 'y' has 10 elements, the benchmark's 12"),
        ("ad01", "float32", "float32", (640, 1), "output 'y' has 1 elements, the benchmark's 640"),
        ("ic01", "int16", "int8", (3072, 10), "input 'x' is int16, and the benchmark sends uint8"),
        ("kws01", "uint8", "int8", (490, 12), "input 'x' is uint8, and the benchmark sends int8"),
        ("own", "int8", "int64", (4, 4), "output 'y' is int64"),
        ("own", "int8", "int16", (4, 4), "does not state the quantisation of 'y'"),
        ("", "int8", "int8", (4, 4), "no benchmark was named"),
        ("a b", "int8", "int8", (4, 4), "invalid value 'a b'"),
        ("x]", "int8", "int8", (4, 4), "invalid value"),
    ],
)
def test_refused(
    id_: str, taken: str, given: str, elements: tuple[int, int], what: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=re.escape(what)):
        main_c(tmp_path, toy(tmp_path, taken, given, elements), mlperf_id=id_)
    assert not (tmp_path / "app").exists()


def test_refused_options(tmp_path: Path) -> None:
    model = toy(tmp_path, "int8", "int8", SIZES["kws01"])
    with pytest.raises(InputError, match="--id is for the mlperf application"):
        mlf_sdk.generate(model, tmp_path / "app", board="host", mlperf_id="kws01")
    with pytest.raises(InputError, match="decides its results"):
        main_c(tmp_path, model, mlperf_id="kws01", softmax=True)
    with pytest.raises(InputError, match="holds one model"):
        mlf_sdk.generate([model, DIGITS], tmp_path / "app", board="host", app="mlperf", mlperf_id="own")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x", "invalid value 'x'"),
        ("x=0,1", "invalid value"),
        ("x=inf,1", "invalid value"),
        ("x=0.5", "invalid value"),
        ("x=0.5,99999999999", "invalid value"),
        ("z=0.5,1", "there is no input or output 'z'"),
    ],
)
def test_bad_statements(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=what):
        mlf_sdk.load(toy(tmp_path, "int8", "int8", (4, 4)), quantisation=(text,))


def test_what_the_file_states_is_not_stated_again() -> None:
    layers = ROOT / "examples/layers/layers.tflite"
    name = mlf_sdk.load(layers).output_names[0]
    with pytest.raises(InputError, match="is stated already"):
        mlf_sdk.load(layers, quantisation=(f"{name}=1,0",))


def test_a_run_keeps_its_input(tmp_path: Path) -> None:
    """One input serves all runs of a window."""
    model = toy(tmp_path, "int8", "int8", (4, 4))
    made = mlf_sdk.generate(model, tmp_path / "app", board="host", app="mlperf", mlperf_id="own")
    assert made.lock.models[0].inputs_kept
    assert (made.lock.options.app, made.lock.options.mlperf_id) == ("mlperf", "own")


def test_the_command_line(call: Caller, tmp_path: Path) -> None:
    model = toy(tmp_path, "int8", "int8", SIZES["kws01"])
    arguments = ["generate", model, "-o", tmp_path / "app", "--board", "mps2-an386", "--app", "mlperf"]
    assert call(*arguments, "--id", "kws01").code == 0
    assert call(*arguments, "--id", "ic01").block()["what"] == (
        "input 'x' has 490 elements, the benchmark's 3,072"
    )


C_LIBRARY = ("memchr", "memcmp", "memcpy", "memmove", "memset", "strcmp", "strlen", "strncmp")


@pytest.mark.qemu
def test_the_application_is_small(needs_arm: None, tmp_path: Path) -> None:
    """At most 3 kB of flash beside the model: the standalone application prints as much without any protocol.

    Functions of the C library, which this application calls and that one does not, are not counted.
    """
    flash = {}
    for app, more in (("standalone", {}), ("mlperf", {"mlperf_id": "digits"})):
        folder = tmp_path / app
        options: dict[str, Any] = {"board": "mps2-an386", "app": app, "keep_inputs": True, **more}
        mlf_sdk.generate(DIGITS, folder, **options)
        built = mlf_sdk.build(folder)
        text, data, *_ = ccode.call("arm-none-eabi-size", built.elf).splitlines()[1].split()
        symbols = [line.split() for line in ccode.call("arm-none-eabi-nm", "-S", built.elf).splitlines()]
        library = sum(int(found[1], 16) for found in symbols if found[-1] in C_LIBRARY and len(found) == 4)
        flash[app] = int(text) + int(data) - library
    assert 0 < flash["mlperf"] - flash["standalone"] <= 3000
