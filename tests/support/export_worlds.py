# SPDX-License-Identifier: Apache-2.0
"""Builds of exports by their own manifests: each reads its format as the world does, and runs the example."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from pathlib import Path

import yaml

from core_images import LINK, MACHINES, START
from mlf_sdk.compiler.cores import core_named

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wmissing-prototypes", "-Wundef", "-Werror")


def command(*words: str | Path, cwd: Path | None = None) -> str:
    """Standard output of a program that must succeed."""
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def compiled(
    folder: Path,
    sources: Iterable[str | Path],
    includes: Iterable[str | Path],
    *,
    flags: Iterable[str] = (),
    more: Iterable[str | Path] = (),
    compiler: str = "cc",
) -> str:
    """Output of the program that these sources make."""
    program = folder / "program"
    paths = [folder / source for source in sources]
    assert paths
    assert all(path.is_file() for path in paths)
    flags = [*flags, *(f"-I{folder / one}" for one in includes)]
    command(compiler, "-std=gnu99", "-O1", *flags, *paths, *more, "-lm", "-o", program)
    return command(program)


def make(folder: Path, name: str, compiler: str = "gcc", flags: str = "-O2 -Wall -Wextra -Werror") -> str:
    """GNU make."""
    command("make", "-s", "-j2", "example", f"CC={compiler}", f"CFLAGS={flags}", cwd=folder)
    return command(folder / "build" / f"{name}_example")


def make_clang(folder: Path, name: str) -> str:
    """GNU make with clang."""
    return make(folder, name, "clang")


def make_qemu(folder: Path, name: str) -> str:
    """GNU make with a cross compiler; the library in a program of its own on an emulated Cortex-M4."""
    machine = MACHINES[core_named("cortex-m4")]
    cpu = [*machine.flags]
    flags = " ".join([*cpu, "-O2", "-ffunction-sections", "-fdata-sections"])
    command(
        *("make", "-s", "-j2", "CC=arm-none-eabi-gcc", "AR=arm-none-eabi-ar", f"CFLAGS={flags}"), cwd=folder
    )
    main = folder / "board.c"
    main.write_text(
        f"{START}\n"
        f'#include "{name}_example.h"\n'
        "static void print(const char *text) { host(4, text); }\n"
        f"int main(void) {{ return {name}_example(print); }}\n"
    )
    script = folder / "board.ld"
    script.write_text(LINK.format(flash=machine.flash, size=machine.flash_kb, ram=machine.ram))
    elf = folder / "board.elf"
    example = folder / "example"
    unused = ["-Wno-unused-function"]
    command(
        *("arm-none-eabi-gcc", *cpu, "-O2", *unused, "-nostartfiles", f"-T{script}"),
        *(f"-I{folder / 'src'}", f"-I{example}", main, example / f"{name}_example.c"),
        *(folder / "build" / f"lib{name}.a", "-Wl,--no-warn-rwx-segments", "-lm", "-o", elf),
    )
    run = ("qemu-system-arm", "-M", machine.name, "-nographic", "-monitor", "none", "-serial", "none")
    done = subprocess.run(
        [*run, "-semihosting-config", "enable=on,target=native", "-kernel", str(elf)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


def cmake(folder: Path, name: str) -> str:
    """CMake: the folder by itself."""
    command("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja")
    command("cmake", "--build", folder / "build")
    return command(folder / "build" / f"{name}_example")


def _called(text: str, function: str) -> list[str]:
    """Arguments of the one call of a function in a CMake file."""
    (found,) = re.findall(rf"\b{function}\(([^)]*)\)", text)
    return shlex.split(found)


ZEPHYR_STUB = """\
cmake_minimum_required(VERSION 3.20)
project(stub LANGUAGES C)
set(CONFIG_{macro} y)
add_executable(app)
set(used ${{CMAKE_CURRENT_SOURCE_DIR}}/zephyr)
set(includes "")
function(zephyr_include_directories)
  foreach(one ${{ARGN}})
    list(APPEND includes ${{used}}/${{one}})
  endforeach()
  target_include_directories(app PRIVATE ${{includes}})
  set(includes ${{includes}} PARENT_SCOPE)
endfunction()
macro(zephyr_library_named name)
  add_library(${{name}} STATIC)
  target_include_directories(${{name}} PRIVATE ${{includes}})
  target_link_libraries(app PRIVATE ${{name}} m)
  set(current ${{name}})
endmacro()
macro(zephyr_library_sources)
  foreach(one ${{ARGN}})
    target_sources(${{current}} PRIVATE ${{used}}/${{one}})
  endforeach()
endmacro()
macro(zephyr_library_compile_options)
  target_compile_options(${{current}} PRIVATE ${{ARGN}})
endmacro()
include(zephyr/CMakeLists.txt)
"""


def zephyr(folder: Path, name: str) -> str:
    """Zephyr's CMake functions by a stub; names of files and options by the module's and the sample's own."""
    module = yaml.safe_load((folder / "zephyr/module.yml").read_text())
    assert module["build"] == {"cmake": "zephyr", "kconfig": "zephyr/Kconfig"}
    assert f"config {name.upper()}\n" in (folder / "zephyr/Kconfig").read_text()
    sample = folder / "samples" / name
    assert f"CONFIG_{name.upper()}=y" in (sample / "prj.conf").read_text()
    ((title, test),) = yaml.safe_load((sample / "sample.yaml").read_text())["tests"].items()
    assert title == f"sample.{name}"
    used = _called((sample / "CMakeLists.txt").read_text(), "target_sources")
    stub = ZEPHYR_STUB.format(macro=name.upper())
    stub += "".join(f"target_sources(app PRIVATE samples/{name}/{source})\n" for source in used[2:])
    (folder / "CMakeLists.txt").write_text(stub)
    said = cmake_app(folder)
    assert re.search(test["harness_config"]["regex"][0], said)
    return said


def cmake_app(folder: Path) -> str:
    """Output of the target ``app`` of a folder."""
    command("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja")
    command("cmake", "--build", folder / "build", "--target", "app")
    return command(folder / "build" / "app")


IDF_STUB = """\
cmake_minimum_required(VERSION 3.16)
project(stub LANGUAGES C)
add_executable(app stub.c)
function(idf_component_register)
  cmake_parse_arguments(PARSE_ARGV 0 A "" "" "SRCS;INCLUDE_DIRS;REQUIRES")
  get_filename_component(name ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  add_library(${name} STATIC ${A_SRCS})
  target_include_directories(${name} PUBLIC ${A_INCLUDE_DIRS})
  target_link_libraries(${name} PUBLIC ${A_REQUIRES} m)
  target_link_libraries(app PRIVATE ${name})
  set(COMPONENT_LIB ${name} PARENT_SCOPE)
endfunction()
"""


def esp_idf(folder: Path, name: str) -> str:
    """ESP-IDF's CMake function and its start by a stub."""
    manifest = yaml.safe_load((folder / "idf_component.yml").read_text())
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    example = folder / manifest["examples"][0]["path"]
    needs = yaml.safe_load((example / "main/idf_component.yml").read_text())["dependencies"]
    assert (example / "main" / needs[name]["path"]).resolve() == folder.resolve()
    outer = folder.parent / f"{folder.name}_stub"
    outer.mkdir()
    (outer / name).symlink_to(folder)
    (outer / "stub.c").write_text("void app_main(void);\nint main(void) {\n  app_main();\n  return 0;\n}\n")
    folders = f"add_subdirectory({name})\nadd_subdirectory({name}/{example.relative_to(folder)}/main main)\n"
    (outer / "CMakeLists.txt").write_text(IDF_STUB + folders)
    return cmake_app(outer)


ARDUINO_STUB = """\
#include <stdio.h>
#include <string.h>
struct Console {
  void begin(long) {}
  explicit operator bool() const { return true; }
  void print(const char *text) { fputs(text, stdout); }
  void println(const char *text) { puts(text); }
};
static Console Serial;
void setup();
void loop();
"""


def arduino(folder: Path, name: str) -> str:
    """Arduino's rules: all of ``src`` is compiled and its one include path; the sketch is C++."""
    text = (folder / "library.properties").read_text()
    properties = dict(line.split("=", 1) for line in text.splitlines() if line)
    assert properties.keys() >= {"name", "version", "author", "maintainer", "sentence", "paragraph"}
    assert properties["architectures"] == "*"
    sketch = folder / "examples" / name
    main = folder / "sketch.cpp"
    ino = (sketch / f"{name}.ino").read_text()
    main.write_text(f"{ARDUINO_STUB}\n{ino}\nint main() {{ setup(); loop(); }}\n")
    objects = folder / "objects"
    objects.mkdir()
    sources = [*(folder / "src").rglob("*.c"), *sketch.glob("*.c")]
    for path in sources:  # Arduino compiles each with its flags alone
        command(
            *("cc", "-std=gnu11", "-Os", f"-I{folder / 'src'}", f"-I{sketch}"),
            *("-c", path, "-o", objects / f"{path.stem}.o"),
        )
    program = folder / "program"
    command(
        *("c++", "-std=gnu++11", "-Os", f"-I{folder / 'src'}", f"-I{sketch}", main),
        *(*objects.glob("*.o"), "-o", program),
    )
    return command(program)


def platformio(folder: Path, name: str) -> str:
    """PlatformIO's default rules: all of ``src``, with the manifest's flags."""
    manifest = json.loads((folder / "library.json").read_text())
    assert manifest["name"] == name
    sketch = folder / "examples" / name / "src"
    sources = [*(folder / "src").rglob("*.c"), *sketch.glob("*.c")]
    return compiled(folder, sources, ("src", sketch), flags=manifest["build"]["flags"])


def cmsis_pack(folder: Path, name: str) -> str:
    """Files of the package description, by their categories."""
    (path,) = folder.glob("*.pdsc")
    package = ET.parse(path).getroot()
    assert path.name == f"{package.findtext('vendor')}.{package.findtext('name')}.pdsc"
    component = package.find("components/component")
    assert component is not None
    files = component.findall("files/file")
    assert all((folder / one.attrib["name"]).exists() for one in files)
    sources = [one.attrib["name"] for one in files if one.attrib["category"] == "source"]
    includes = [one.attrib["name"] for one in files if one.attrib["category"] == "include"]
    return compiled(folder, sources, [*includes, "Example"])


def stm32cubeide(folder: Path, name: str) -> str:
    """The folder as a source folder of a project, with the include path that the settings add."""
    (path,) = folder.glob("*_settings.xml")
    found = [one.text or "" for one in ET.parse(path).iter("includepath")]
    (include,) = {one.removeprefix(f"/${{ProjName}}/Middlewares/{name}/") for one in found}
    sources = [*(folder / "src").rglob("*.c"), *(folder / "example").glob("*.c")]
    return compiled(folder, sources, (include, "example"))


def iar(folder: Path, name: str) -> str:
    """Files of the project connection, beside a project."""
    root = ET.parse(folder / f"{name}.ipcf").getroot()
    before = f"$PROJ_DIR$/{name}/"
    sources = [(one.text or "").removeprefix(before) for one in root.findall("files/group/path")]
    includes = [(one.text or "").removeprefix(before) for one in root.findall("includePath/path")]
    return compiled(folder, sources, [*includes, "example"], more=(folder / "example").glob("*.c"))


def keil(folder: Path, name: str) -> str:
    """Project and layer as CMSIS-Toolbox reads them."""
    project = yaml.safe_load((folder / f"{name}.cproject.yml").read_text())["project"]
    solution = yaml.safe_load((folder / f"{name}.csolution.yml").read_text())["solution"]
    assert solution["projects"] == [{"project": f"{name}.cproject.yml"}]
    layer = yaml.safe_load((folder / project["layers"][0]["layer"]).read_text())["layer"]
    groups = [*project["groups"], *layer["groups"]]
    sources = [one["file"] for group in groups for one in group["files"]]
    flags = {flag for group in groups for one in group.get("misc", ()) for flag in one["C"]}
    return compiled(folder, sources, [*layer["add-path"], "example"], flags=sorted(flags))


World = Callable[[Path, str], str]
WORLDS: dict[str, tuple[World, ...]] = {
    "arduino": (arduino,),
    "cmake": (cmake,),
    "cmsis-pack": (cmsis_pack,),
    "esp-idf": (esp_idf,),
    "iar": (iar,),
    "keil": (keil,),
    "make": (make, make_clang, make_qemu),
    "platformio": (platformio,),
    "stm32cubeide": (stm32cubeide,),
    "zephyr": (zephyr,),
}
