# SPDX-License-Identifier: Apache-2.0
"""Several modules in one Zephyr application, with stand-ins of Zephyr's CMake functions."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from archives import Spec, build, write
from mlf_sdk import run as api_run
from mlf_sdk.analysis.assembly import scan_assembly
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline import api
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.targets.zephyr.files import zephyr_board
from mlf_sdk.targets.zephyr.output import has_option
from mlf_sdk.targets.zephyr.target import ZephyrTarget
from mlf_sdk.version import __version__
from zephyr_trees import MakeTree, put, zephyr_options

ZEPHYR = """\
cmake_minimum_required(VERSION 3.20)
project(app LANGUAGES C ASM)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CONFIG_MLF y)
add_library(zephyr_interface INTERFACE)
macro(zephyr_include_directories)
  target_include_directories(zephyr_interface INTERFACE ${ARGN})
endmacro()
macro(zephyr_compile_definitions)
  target_compile_definitions(zephyr_interface INTERFACE ${ARGN})
endmacro()
macro(zephyr_ld_options)
endmacro()
macro(zephyr_library_named name)
  set(ZEPHYR_CURRENT_LIBRARY ${name})
  add_library(${name} STATIC)
  target_link_libraries(${name} PRIVATE zephyr_interface)
  set_property(GLOBAL APPEND PROPERTY LIBRARIES ${name})
endmacro()
macro(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()
macro(zephyr_library_include_directories)
  target_include_directories(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()
macro(zephyr_library_compile_options)
  target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()
foreach(module %s)
  add_subdirectory(${module}/zephyr modules/${module})
endforeach()
add_executable(app main.c)
get_property(libraries GLOBAL PROPERTY LIBRARIES)
target_link_libraries(app PRIVATE zephyr_interface -Wl,--start-group ${libraries} -Wl,--end-group m)
"""
ROOT = Path(__file__).parents[2]
MAIN = """\
#include "one.h"
#include "two.h"
int main(void) { return one_run() != MLF_OK || two_run() != MLF_OK; }
"""


def generate(tmp_path: Path, base: Path, folder: str, spec: Spec, **options: str) -> None:
    archive = write(build(spec), tmp_path / f"{folder}.tar")
    api.generate(
        archive,
        tmp_path / folder,
        board="any",
        platform="zephyr",
        app="library",
        zephyr_base=str(base),
        **options,
    )


def configure(folder: Path, *modules: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    (folder / "CMakeLists.txt").write_text(ZEPHYR % " ".join(modules))
    (folder / "main.c").write_text(MAIN)
    argv = ["cmake", "-G", "Ninja", "-S", str(folder), "-B", str(folder / "build"), *options]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.toolchain
@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_two_modules_share_one_runtime(
    make_tree: MakeTree, tmp_path: Path, needs_host: None, order: tuple[str, str]
) -> None:
    base = make_tree("4.1.0")
    generate(tmp_path, base, "one", Spec(name="one"))
    generate(tmp_path, base, "two", Spec(name="two", kind="aot-packed"), cflags="-O1")
    done = configure(tmp_path, *order)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(
        ["cmake", "--build", str(tmp_path / "build")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    subprocess.run([tmp_path / "build/app"], timeout=10, check=True)
    commands = json.loads((tmp_path / "build/compile_commands.json").read_text())
    (backend,) = [c["command"] for c in commands if c["file"].endswith("mlf_backend.c")]
    assert f"/{order[0]}/crt/" in backend
    assert "-DMLF_WORKSPACE_SLOTS=1" in backend and "-DMLF_WORKSPACE_STACK=1" in backend
    assert not [c for c in commands if "/crt/" not in c["file"] and "MLF_WORKSPACE" in c["command"]]
    for name, level in (("one", "-O2"), ("two", "-O1")):
        kernels = [c["command"] for c in commands if f"/{name}/codegen/" in c["file"]]
        assert kernels and all(f" {level} " in c for c in kernels)


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("modules", "observe", "sequences", "tables"),
    [
        (("layers",), False, 1, 0),
        (("layers",), True, 0, 1),
        (("one",), False, 0, 1),
        (("one", "layers"), False, 1, 1),
        (("layers", "one"), True, 0, 1),
    ],
)
def test_the_runtime_has_the_ways_to_run_that_its_models_need(
    make_tree: MakeTree,
    tmp_path: Path,
    needs_host: None,
    modules: tuple[str, ...],
    observe: bool,
    sequences: int,
    tables: int,
) -> None:
    """A compiled model is one function, an archive of TVM a table of steps; both are one with MLF_OBSERVE."""
    base = make_tree("4.1.0")
    if "one" in modules:
        generate(tmp_path, base, "one", Spec(name="one"))
    if "layers" in modules:
        where = {"platform": "zephyr", "zephyr_base": str(base)}
        model = ROOT / "examples/layers/layers.tflite"
        api.generate(model, tmp_path / "layers", board="any", app="library", **where)
    done = configure(tmp_path, *modules, options=("-DCONFIG_MLF_OBSERVE=y",) if observe else ())
    assert done.returncode == 0, done.stderr
    calls = " || ".join(f"{name}_run() != MLF_OK" for name in modules)
    headers = "".join(f'#include "{name}.h"\n' for name in modules)
    (tmp_path / "main.c").write_text(f"{headers}int main(void) {{ return {calls}; }}\n")
    build_app = ["cmake", "--build", str(tmp_path / "build")]
    done = subprocess.run(build_app, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    subprocess.run([tmp_path / "build/app"], timeout=10, check=True)
    commands = json.loads((tmp_path / "build/compile_commands.json").read_text())
    (runtime,) = [c["command"] for c in commands if c["file"].endswith("/crt/src/mlf.c")]
    assert f"-DMLF_SEQUENCES={sequences}" in runtime and f"-DMLF_STEP_TABLES={tables}" in runtime


@pytest.mark.toolchain
def test_a_module_builds_its_assembly(make_tree: MakeTree, tmp_path: Path, needs_arm: None) -> None:
    """By a compiler for the core, with flags as the tree gives them to all languages."""
    base = make_tree("4.1.0")
    where = {"platform": "zephyr", "zephyr_base": str(base)}
    model = ROOT / "examples/layers/layers.tflite"
    given = {"core": "cortex-m4", "asm": "file"}
    api.generate(model, tmp_path / "layers", board="any", app="library", **where, **given)
    core = "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
    options = [f"-DCMAKE_{language}_FLAGS={core}" for language in ("C", "ASM")]
    options += ["-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_C_COMPILER=arm-none-eabi-gcc"]
    options += ["-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"]
    options += ["-DCMAKE_EXE_LINKER_FLAGS=--specs=nosys.specs"]
    done = configure(tmp_path, "layers", options=tuple(options))
    assert done.returncode == 0, done.stderr
    (tmp_path / "main.c").write_text(
        '#include "layers.h"\nint main(void) { return layers_run() != MLF_OK; }\n'
    )
    build_app = ["cmake", "--build", str(tmp_path / "build")]
    done = subprocess.run(build_app, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    (source,) = (tmp_path / "layers/model/layers/kernels").glob("*.S")
    named = set(scan_assembly(source.read_text()).symbols)
    assert named <= {symbol.name for symbol in read_image(tmp_path / "build/app").symbols}


def test_modules_that_can_not_be_together(make_tree: MakeTree, tmp_path: Path, needs_host: None) -> None:
    base = make_tree("4.1.0")
    for folder, name in (("one", "one"), ("same", "one"), ("other", "two")):
        generate(tmp_path, base, folder, Spec(name=name))
    done = configure(tmp_path, "one", "same")
    assert done.returncode != 0
    assert "Two models of this build are named 'one'" in " ".join(done.stderr.split())
    listing = tmp_path / "other/zephyr/CMakeLists.txt"
    listing.write_text(listing.read_text().replace(__version__, "99.0.0"))
    done = configure(tmp_path, "one", "other")
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert f"was generated by mlf-sdk 99.0.0, but the runtime of this build by mlf-sdk {__version__}" in said


@pytest.mark.toolchain
def test_a_runtime_from_the_workspace_serves_generated_libraries(
    make_tree: MakeTree, tmp_path: Path, needs_host: None
) -> None:
    """The repository is a Zephyr module: a west.yml entry fetches it, before or after the libraries."""
    assert "cmake: zephyr\n  kconfig: zephyr/Kconfig" in (ROOT / "zephyr/module.yml").read_text()
    base = make_tree("4.1.0")
    (tmp_path / "runtime").symlink_to(ROOT, target_is_directory=True)
    generate(tmp_path, base, "one", Spec(name="one"))
    generate(tmp_path, base, "two", Spec(name="two", kind="aot-packed"))
    done = configure(tmp_path, "runtime", "one", "two")
    assert done.returncode == 0, done.stderr
    build_app = ["cmake", "--build", str(tmp_path / "build")]
    done = subprocess.run(build_app, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    subprocess.run([tmp_path / "build/app"], timeout=10, check=True)
    commands = json.loads((tmp_path / "build/compile_commands.json").read_text())
    (backend,) = [c["command"] for c in commands if c["file"].endswith("mlf_backend.c")]
    assert "/one/crt/" not in backend and "/two/crt/" not in backend
    assert "-DMLF_WORKSPACE_SLOTS=1" in backend and "-DMLF_WORKSPACE_STACK=1" in backend


def test_a_library_of_another_version_than_the_runtimes(
    make_tree: MakeTree, tmp_path: Path, needs_host: None
) -> None:
    generate(tmp_path, make_tree("4.1.0"), "one", Spec(name="one"))
    (tmp_path / "runtime").symlink_to(ROOT, target_is_directory=True)
    listing = tmp_path / "one/zephyr/CMakeLists.txt"
    listing.write_text(listing.read_text().replace(__version__, "99.0.0"))
    done = configure(tmp_path, "runtime", "one")
    assert f"but the runtime of this build by mlf-sdk {__version__}" in " ".join(done.stderr.split())


def archive_that_calls_cmsis_nn(folder: Path) -> Path:
    files = build(Spec(name="one"))
    source = next(name for name in files if name.endswith("_lib1.c"))
    files[source] = b'#include "arm_nnfunctions.h"\n' + files[source]
    return write(files, folder / "one.tar")


def put_cmsis_nn(checkout: Path) -> Path:
    put(checkout / "Include/arm_nnfunctions.h", "int32_t arm_softmax_s8(int32_t x);\n")
    put(checkout / "Source/arm_softmax_s8.c", "int marker;\n")
    return checkout


def assert_no_path(project: Path, folder: Path) -> None:
    """No file of a project names a folder of the machine, but the one that remembers this machine's."""
    for path in project.rglob("*"):
        if path.is_file() and path.name != "mlf-local.json":
            assert str(folder).encode() not in path.read_bytes(), path


def test_cmsis_nn_of_a_checkout_that_is_named(make_tree: MakeTree, tmp_path: Path) -> None:
    """It is built in place of Zephyr's: that is what was read."""
    checkout, base = put_cmsis_nn(tmp_path / "nn-2022"), make_tree("4.1.0")
    put(base / ".west/config")
    put_cmsis_nn(base / "modules/lib/cmsis-nn")
    put(base / "modules/lib/cmsis-dsp/CMakeLists.txt")
    archive = archive_that_calls_cmsis_nn(tmp_path)
    where = {"board": "qemu_cortex_m3", "platform": "zephyr", "zephyr_base": str(base)}
    for app in ("library", "rpc"):
        folder = tmp_path / app
        api.generate(archive, folder, app=app, cmsis_nn=str(checkout), **where)
        assert_no_path(folder, tmp_path)
        assert json.loads((folder / "mlf-local.json").read_text())["cmake_args"] == [
            f"-DMLF_CMSIS_NN={checkout}"
        ]
        kconfig = (folder / "zephyr/Kconfig").read_text()
        assert "config MLF_CMSIS_NN" in kconfig and "default y" not in kconfig
    done = configure(tmp_path, "library")
    assert "west update cmsis-nn cmsis-dsp" in " ".join(done.stderr.split())


def test_cmsis_nn_of_the_workspace(
    make_tree: MakeTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zephyr's own module needs no option: its headers are read, and its build compiles it."""
    monkeypatch.delenv("ZEPHYR_MODULES", raising=False)
    base = make_tree("4.1.0")
    archive, folder = archive_that_calls_cmsis_nn(tmp_path), tmp_path / "app"
    where = {"board": "qemu_cortex_m3", "platform": "zephyr", "zephyr_base": str(base)}
    with pytest.raises(InputError, match=r"a part of CMSIS-NN") as caught:
        api.generate(archive, folder, **where)
    assert "west update cmsis cmsis-dsp cmsis-nn" in caught.value.hint
    put(base / ".west/config")
    put_cmsis_nn(base / "modules/lib/cmsis-nn")
    with pytest.raises(InputError, match=r"a part of CMSIS-NN"):  # Zephyr's needs CMSIS-DSP
        api.generate(archive, folder, **where)
    put(base / "modules/lib/cmsis-dsp/CMakeLists.txt")
    assert api.generate(archive, folder, **where).lock.options.cmsis_nn == "cmsis-nn"
    assert_no_path(folder, tmp_path)
    assert not (folder / "mlf-local.json").exists()
    kconfig = (folder / "zephyr/Kconfig").read_text()
    for line in ("default y", "imply CMSIS_NN_CONVOLUTION", "imply CMSIS_NN_LSTM", "imply CMSIS_NN_PAD"):
        assert f"\t{line}\n" in kconfig
    modules = f"{base / 'modules/lib/cmsis-nn'};{base / 'modules/lib/cmsis-dsp'}"
    (base / ".west/config").unlink()
    monkeypatch.setenv("ZEPHYR_MODULES", modules)
    assert api.generate(archive, folder, **where).lock.options.cmsis_nn == "cmsis-nn"


@pytest.mark.zephyr
@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.shared
def test_cmsis_nn_of_zephyr_computes_the_same(
    shared_mlf: Path, real_setup: ZephyrSetup, zephyr_tools: None
) -> None:
    target = ZephyrTarget(zephyr_board("mps2-an386"), real_setup)
    if target.cmsis_nn_module() is None:
        pytest.skip(
            "no modules cmsis-nn and cmsis-dsp beside the Zephyr tree: west update cmsis-nn cmsis-dsp"
        )
    with np.load(shared_mlf / "ad_int8.npz") as data:
        given, wanted = data["A::in::input_1"], data["A::tvm::0"]
    report = api_run(
        shared_mlf / "ad_int8-cmsisnn-tvm0.11.1.tar",
        board="mps2-an386",
        platform="zephyr",
        inputs={"0": given},
        expect={"0": wanted},
        atol=1.0,
        twin=False,
        **zephyr_options(real_setup),
    )
    assert report.ok
    assert has_option(report.folder / "build", "MLF_CMSIS_NN")
