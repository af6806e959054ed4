# SPDX-License-Identifier: Apache-2.0
"""What is said of the tools of a machine, real and invented."""

from __future__ import annotations

import pytest

from mlf_sdk.tools.discovery import Tool, find_tools, known_tools
from mlf_sdk.tools.process import ProcessError, ProcessResult
from mlf_sdk.tools.programs import install_command, packages
from mlf_sdk.tools.rtlmodels import load_models

TOOL = Tool(name="ninja", purpose="building")


def says(text: str):
    def runner(argv, *, timeout_s, **_):
        assert argv[1:] == ["--version"]
        assert timeout_s > 0
        return ProcessResult(argv=tuple(argv), returncode=0, stdout=text, stderr="", seconds=0.0)

    return runner


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("arm-none-eabi-gcc (15:12.2.rel1-1) 12.2.1 20221205\nCopyright (C) 2022", "12.2.1"),
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\n", "7.2.22"),
        ("GNU objcopy (2.40-2+18+b1) 2.40\n", "2.40"),
        ("1.11.1\n", "1.11.1"),
        ("tool (v3.1)\n", "3.1"),
        ("no number\n", None),
    ],
)
def test_versions(text, version):
    (status,) = find_tools((TOOL,), runner=says(text), which=lambda name: f"/bin/{name}")
    assert (status.path, status.version, status.hint, status.ok) == ("/bin/ninja", version, "", True)


def test_a_missing_tool_names_its_package():
    required, optional = find_tools(
        (TOOL, Tool(name="west", purpose="Zephyr", required=False)), runner=says("1.0"), which=lambda _: None
    )
    assert (required.ok, required.path, required.version) == (False, None, None)
    assert required.hint == "Install it: sudo apt-get install ninja-build"
    assert optional.ok
    assert "pip install west" in optional.hint


def test_a_tool_that_does_not_run():
    def broken(argv, **_):
        raise ProcessError("it failed with exit code 1", argv=argv, returncode=1)

    (status,) = find_tools((TOOL,), runner=broken, which=lambda _: "/bin/ninja")
    assert not status.ok
    assert "exit code 1" in status.hint


def test_each_tool_is_in_a_package():
    by_pip = {"west", "zig", "unicorn", *(model.package for model in load_models().values())}
    assert {tool.name for tool in known_tools()} - set(packages()) == by_pip
    assert all(install_command(tool.name) for tool in known_tools())
    assert [status.tool for status in find_tools()] == list(known_tools())


class TestStandIns:
    """Tools that take the place of others, on invented machines."""

    def found(self, missing: set[str], *, unicorn: bool = True):
        def version(argv, **_):
            assert argv[1:] == (["version"] if argv[0] == "/bin/zig" else ["--version"])
            return ProcessResult(argv=tuple(argv), returncode=0, stdout="1.2.3\n", stderr="", seconds=0.0)

        return {
            one.tool.name: one
            for one in find_tools(
                runner=version,
                which=lambda name: None if name in missing else f"/bin/{name}",
                package=lambda _: "2.1.4" if unicorn else None,
            )
        }

    def test_zig_and_unicorn_are_enough(self):
        found = self.found({"arm-none-eabi-gcc", "arm-none-eabi-objcopy", "qemu-system-arm", "cc", "c++"})
        assert all(one.ok for one in found.values())
        assert found["arm-none-eabi-gcc"].replaced_by == found["cc"].replaced_by == "zig"
        assert found["qemu-system-arm"].replaced_by == "unicorn"
        assert found["unicorn"].version == "2.1.4"
        assert not found["arm-none-eabi-gcc"].runs

    def test_what_is_there_is_not_replaced(self):
        assert not any(one.replaced_by for one in self.found(set()).values())

    def test_gcc_needs_its_own_objcopy(self):
        found = self.found({"arm-none-eabi-objcopy"})
        assert not found["arm-none-eabi-objcopy"].ok

    def test_nothing_takes_the_place(self):
        found = self.found({"zig", "arm-none-eabi-gcc", "qemu-system-arm"}, unicorn=False)
        assert not found["arm-none-eabi-gcc"].ok
        assert not found["qemu-system-arm"].ok
        assert not found["unicorn"].path
        assert found["unicorn"].ok
        assert "mlf-sdk[embedded]" in found["unicorn"].hint

    def test_unicorn_stands_for_no_risc_v(self):
        found = self.found({"qemu-system-riscv32", "riscv64-unknown-elf-gcc"})
        assert found["qemu-system-riscv32"].replaced_by == ""
        assert found["riscv64-unknown-elf-gcc"].replaced_by == "zig"
