# SPDX-License-Identifier: Apache-2.0
"""Exports: each format, built by its manifest, gives what the model means; edits are kept; bad input is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from export_outputs import OUTPUT, check, meant
from export_worlds import WORLDS, World, command, compiled, make
from mlf_sdk.codegen.exportformat import export_formats
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.exportoptions import FORMATS
from signal_models import one

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
DIGITS = ROOT / "examples/digits"
LAYERS = ROOT / "examples/layers/layers.tflite"
CASES = [(name, world) for name, worlds in WORLDS.items() for world in worlds]


def needs_tools(world: World) -> None:
    programs = {
        "make_qemu": ("arm-none-eabi-gcc", "qemu-system-arm", "make"),
        "make_clang": ("clang", "make"),
        "make": ("gcc", "make"),
        "arduino": ("cc", "c++"),
    }.get(world.__name__, ("cc", "cmake", "ninja"))
    missing = [one for one in programs if shutil.which(one) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def streaming(folder: Path) -> Path:
    """A model that keeps part of a stream: what goes in comes out three elements later."""
    path = folder / "delay.tflite"
    path.write_bytes(one("Delay", [("int16", (2, 5))], ("int16", (2, 5)), delay_length=3))
    return path


def model_path(name: str, folder: Path) -> Path:
    if name == "streaming":
        return streaming(folder)
    if name == "digits":
        return DIGITS / "digits-graph-tvm0.11.1.tar"
    if name == "layers":
        return LAYERS
    path = SHARED / "tflite" / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"no such model: {path}")
    return path


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("kind", "world", "model"),
    [
        *((kind, world, "layers") for kind, world in CASES),
        *(("make", make, model) for model in ("digits", "streaming")),
    ],
)
def test_each_format_builds_and_gives_what_the_model_means(
    kind: str, world: World, model: str, tmp_path: Path
) -> None:
    """Whole models in all formats: `python docs/exports.py`."""
    needs_tools(world)
    path = model_path(model, tmp_path)
    mlf_sdk.export(path, tmp_path / "out", to=kind, model_name="net")
    check(world(tmp_path / "out", "net"), path)


@pytest.mark.toolchain
def test_kernels_for_a_core_run_on_it(tmp_path: Path) -> None:
    (world,) = (w for w in WORLDS["make"] if w.__name__ == "make_qemu")
    needs_tools(world)
    mlf_sdk.export(LAYERS, tmp_path / "out", to="make", model_name="net", chip="stm32f411")
    assert "smlad" in "".join(path.read_text() for path in (tmp_path / "out/src").glob("*.c")).lower()
    check(world(tmp_path / "out", "net"), LAYERS)


@pytest.mark.parametrize("kind", ["make", "cmake"])
def test_a_model_in_several_memories(kind: str, tmp_path: Path) -> None:
    """Each object has the section of its memory, which the README lists; what it computes stays."""
    world = WORLDS[kind][0]
    needs_tools(world)
    model = mlf_sdk.load(LAYERS)
    first, weights = model.tensors[model.inputs[0]].name, max(model.constants, key=lambda t: t.size_bytes)
    row, places = ROOT / "tests/boards/rows/an547-h743.toml", ("arena=dtcm,weights=flash", f"{first}=axi")
    options = {"board": "an547-h743", "board_file": str(row), "place": (*places, f"{weights.name}=axi")}
    mlf_sdk.export(LAYERS, tmp_path / "out", to=kind, model_name="net", **options)
    readme = (tmp_path / "out/README.md").read_text()
    rows = re.findall(r"^\| (\w+) \| `(\S+)` \| `(\w+)`, (.*) \| (\d+) \|", readme, re.MULTILINE)
    assert [(memory, section, symbol) for memory, section, symbol, _, _ in rows] == [
        ("dtcm", ".bss.noinit.mlf_arena.net_arena", "net_arena"),
        ("axi", ".mlf.axi.noinit.mlf_arena.net_arena_axi", "net_arena_axi"),
        ("flash", ".rodata.mlf_params.net_params", "net_params"),
        ("axi", ".mlf.axi.data.mlf_params.net_params_axi", "net_params_axi"),
    ]
    code = "".join(path.read_text() for path in (tmp_path / "out").rglob("*.c"))
    for memory, section, symbol, _, count in rows:
        assert re.search(rf'uint8_t {symbol}\[{count}\] .*section\("{re.escape(section)}"\)', code), memory
    check(world(tmp_path / "out", "net"), LAYERS)


def test_all_formats_have_a_world_that_builds_them() -> None:
    assert set(FORMATS) == set(export_formats()) == set(WORLDS)


# ---- the fields' own tools, where they are installed ----


@pytest.fixture
def layers(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """An export of the small model in the format that the test names."""
    mlf_sdk.export(LAYERS, tmp_path / "net", to=request.param, model_name="net", version="2.0.1")
    return tmp_path / "net"


def tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(str(Path(sys.executable).with_name(name)))
    if found is None:
        pytest.skip(f"not installed: {name}")
    return found


@pytest.mark.parametrize("layers", ["cmsis-pack"], indirect=True)
def test_a_pack_keeps_the_schema(layers: Path) -> None:
    xmlschema = pytest.importorskip("xmlschema")
    schema = xmlschema.XMLSchema(str(ROOT / "tests/support/pdsc.xsd"))
    (path,) = layers.glob("*.pdsc")
    schema.validate(str(path))
    wrong = path.read_text().replace('Cversion="2.0.1"', 'Cversion="2"')
    assert not schema.is_valid(wrong)


@pytest.mark.parametrize("layers", ["platformio"], indirect=True)
def test_platformio_packs_it(layers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLATFORMIO_CORE_DIR", str(tmp_path / "core"))
    command(tool("pio"), "pkg", "pack", "-o", tmp_path / "net.tar.gz", layers)
    names = command("tar", "tf", tmp_path / "net.tar.gz").split()
    assert {"library.json", "src/net.h", "src/mlf/mlf.h", "examples/net/src/main.c"} <= set(names)


@pytest.mark.parametrize("layers", ["esp-idf"], indirect=True)
def test_the_component_manager_packs_it(layers: Path) -> None:
    command(tool("compote"), "component", "pack", "--name", "net", cwd=layers)
    assert (layers / "dist/net_2.0.1.tgz").is_file()


# ---- what a person does with it ----

STREAM = """\
#include <stdio.h>
#include "net.h"
static void step(int first) {
  for (int i = 0; i < (int)NET_INPUT_ELEMENTS; i++) net_input()[i] = (int16_t)(first + i);
  if (net_run() != MLF_OK) puts("failed");
  for (int i = 0; i < (int)NET_OUTPUT_ELEMENTS; i++) printf("%d ", net_output()[i]);
  puts("");
}
int main(void) {
  step(1);
  step(11);
  net_reset();
  step(21);
  return 0;
}
"""


@pytest.mark.toolchain
def test_a_stream_goes_on_and_starts_anew(tmp_path: Path, needs_cc: str) -> None:
    mlf_sdk.export(streaming(tmp_path), tmp_path / "out", to="make", model_name="net")
    (tmp_path / "out/stream.c").write_text(STREAM)
    said = compiled(tmp_path / "out", ["stream.c", *(tmp_path / "out/src").glob("*.c")], ["src"])
    assert [line.split() for line in said.splitlines()] == [
        ["0", "0", "0", "1", "2", "0", "0", "0", "6", "7"],
        ["3", "4", "5", "11", "12", "8", "9", "10", "16", "17"],
        ["0", "0", "0", "21", "22", "0", "0", "0", "26", "27"],
    ]


TFLM = """\
#include <stdio.h>
#include "net.h"
int main(void) {
  while (fread(net_input(), 1, NET_INPUT_SIZE, stdin) == NET_INPUT_SIZE) {
    if (net_run() != MLF_OK) return 1;
    fwrite(net_output(), 1, NET_OUTPUT_SIZE, stdout);
  }
  return 0;
}
"""


@pytest.mark.toolchain
@pytest.mark.shared
@pytest.mark.parametrize("model", ["kws", "resnet8"])
def test_it_gives_what_tflm_gave(model: str, tmp_path: Path, needs_cc: str) -> None:
    path = model_path(f"{model}_int8", tmp_path)
    mlf_sdk.export(path, tmp_path / "out", to="cmsis-pack", model_name="net")
    (tmp_path / "out/main.c").write_text(TFLM)
    program, source = tmp_path / "program", tmp_path / "out/Source"
    command(
        needs_cc, "-O2", f"-I{source}", tmp_path / "out/main.c", *source.glob("*.c"), "-lm", "-o", program
    )
    cases = np.load(SHARED / "tflite" / f"{model}_public.npz")
    done = subprocess.run(
        [program], input=cases["input"].tobytes(), capture_output=True, timeout=60, check=True
    )
    assert done.stdout == cases["tflm"].tobytes()


@pytest.mark.toolchain
def test_an_example_compares_its_outputs_where_it_is_asked_to(tmp_path: Path, needs_host: None) -> None:
    out = tmp_path / "out"
    found = mlf_sdk.export(LAYERS, out, to="make", model_name="net", sample_outputs=True)
    assert found.samples
    assert make(out, "net").endswith("as expected\n")
    sample = out / "example/net_sample.h"
    text = sample.read_text()
    head, mark, tail = text.partition("net_expected_0[")
    sample.write_text(head + mark + re.sub("0x..,", "0x55,", tail, count=1))
    done = subprocess.run(
        ["make", "-s", "example"], cwd=out, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [out / "build/net_example"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "differs from what is expected")


def test_the_example_is_the_users_and_generated_files_are_not(tmp_path: Path) -> None:
    out = tmp_path / "out"
    mlf_sdk.export(LAYERS, out, to="zephyr", model_name="net")
    main = out / "samples/net/src/main.c"
    main.write_text("mine")
    found = mlf_sdk.export(LAYERS, out, to="zephyr", model_name="net", version="1.1.0")
    assert (main.read_text(), found.kept) == ("mine", ("samples/net/src/main.c",))
    (out / "src/net.h").write_text("mine")
    with pytest.raises(InputError, match=r"src/net\.h"):
        mlf_sdk.export(LAYERS, out, to="zephyr", model_name="net")


def test_exports_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        mlf_sdk.export(LAYERS, tmp_path / name, to="arduino", model_name="net")
    files = [
        {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.*")}
        for name in ("a", "b")
        if not (tmp_path / name).is_file()
    ]
    assert files[0] == files[1]


def test_two_models_share_a_runtime(tmp_path: Path, needs_cc: str) -> None:
    digits = DIGITS / "digits-graph-tvm0.11.1.tar"
    mlf_sdk.export([LAYERS, digits], tmp_path / "out", to="make")
    said = make(tmp_path / "out", "layers")
    assert len(OUTPUT.findall(said)) == 2
    (first,) = meant(LAYERS)
    assert OUTPUT.findall(said)[0] == first.tobytes().hex()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"to": "bazel"}, "invalid value 'bazel'"),
        ({"version": "1.0"}, "invalid value '1.0'"),
        ({"model_name": "my model"}, "invalid value 'my model'"),
        ({"chip": "stm32x999"}, "there is no chip"),
    ],
)
def test_bad_options_are_refused(options: dict[str, str], what: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(what)):
        mlf_sdk.export(LAYERS, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.shared
def test_code_that_is_not_c_is_refused(tmp_path: Path) -> None:
    archive = SHARED / "mlf/conv1d-llvmgraph-tvm0.11.1.tar"
    if not archive.is_file():
        pytest.skip(f"no such archive: {archive}")
    with pytest.raises(InputError, match="plain C"):
        mlf_sdk.export(archive, tmp_path / "out", to="make")
    assert not (tmp_path / "out").exists()


def test_assembly_in_files_of_its_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="assembly in files of its own"):
        mlf_sdk.export(LAYERS, tmp_path / "out", to="make", core="cortex-m4", asm="file")
    assert not (tmp_path / "out").exists()
