# SPDX-License-Identifier: Apache-2.0
"""The set-up scripts on machines that lack something, or were interrupted; stand-ins take the place of programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ccode import compiler, sanitizing

ROOT = Path(__file__).parents[2]
SHELL_TOOLS = (
    "sh",
    "env",
    "sed",
    "find",
    "touch",
    "rm",
    "mkdir",
    "ls",
    "dirname",
    "cat",
    "cp",
    "chmod",
    "make",
)

FAKE_PYTHON = """
case "$*" in
  *ensurepip*) [ -z "${NO_ENSUREPIP-}" ] ;;
  *version_info*) [ -z "${OLD-}" ] ;;
  --version) echo "Python 3.9.2" ;;
  "-m venv "*)
    mkdir -p "$3/bin" "$3/lib/python3/site-packages"
    touch "$3/pyvenv.cfg"
    [ -z "${STOP_IN_VENV-}" ] || kill -INT $PPID
    cp "$FAKES/python3" "$3/bin/python"
    place=$(cd "$3" && pwd)
    echo "#!/bin/sh\necho pip 23 from $place/lib/python3/site-packages/pip '(python 3)'" > "$3/bin/pip"
    echo "#!/bin/sh" > "$3/bin/mlf-sdk"
    chmod +x "$3/bin/pip" "$3/bin/mlf-sdk" ;;
  "-m pip "*)
    echo "pip: $*" >> "$LOG"
    [ -z "${STOP_IN_PIP-}" ] || kill -INT $PPID ;;
esac
"""


class Machine:
    """A checkout's set-up scripts, and a PATH that holds only what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.checkout = folder / "checkout"
        self.log = folder / "log"
        self.programs.mkdir()
        shutil.copytree(ROOT / ".ci", self.checkout / ".ci")
        for name in ("Makefile", "pyproject.toml"):
            shutil.copy(ROOT / name, self.checkout)
        for name in SHELL_TOOLS:
            found = shutil.which(name)
            if found is None:
                pytest.skip(f"not installed: {name}")
            (self.programs / name).symlink_to(found)
        self.program("python3", FAKE_PYTHON)
        self.program("id", "echo 1000")

    def program(self, name: str, text: str = "exit 0") -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def tools(self) -> None:
        """Put a stand-in for each tool on PATH."""
        for name in (
            "cc",
            "c++",
            "cmake",
            "ninja",
            "arm-none-eabi-gcc",
            "arm-none-eabi-g++",
            "qemu-system-arm",
        ):
            self.program(name, "case $* in *nano.specs*) echo /lib/nano.specs ;; esac")

    def run(self, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.programs), "FAKES": str(self.programs), "LOG": str(self.log), **variables}
        return subprocess.run(
            argv,
            cwd=self.checkout,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            start_new_session=True,
        )

    def logged(self) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


PIP = "pip: -m pip install --quiet --disable-pip-version-check --editable ."


def test_the_command_for_an_administrator_can_be_pasted(machine: Machine) -> None:
    machine.program("apt-get", "exit 99")
    done = machine.run("sh", ".ci/install-tools.sh", NO_ENSUREPIP="1")
    assert done.returncode == 3
    head, command = done.stderr.splitlines()
    assert "administrator" in head
    words = command.split()
    assert words[:4] == ["apt-get", "install", "--no-install-recommends", "python3-venv"]
    assert {"gcc", "cmake", "ninja-build", "gcc-arm-none-eabi", "qemu-system-arm"} <= set(words)
    assert not done.stdout


def test_one_command_names_all_that_the_demo_lacks(machine: Machine) -> None:
    """Tools and venv are asked for together, before any folder is made."""
    machine.program("apt-get", "exit 99")
    done = machine.run("make", "demo", NO_ENSUREPIP="1")
    assert done.returncode != 0
    assert done.stderr.count("apt-get install") == 1
    assert not (machine.checkout / ".venv").exists()
    assert "Error" not in done.stdout


def test_packages_are_installed_by_root(machine: Machine) -> None:
    machine.program("id", "echo 0")
    machine.program("apt-get", 'echo "apt-get $*" >> "$LOG"')
    machine.program("dpkg", 'echo "dpkg $*" >> "$LOG"')
    done = machine.run("sh", ".ci/install-tools.sh", NO_ENSUREPIP="1")
    assert done.returncode == 0, done.stderr
    repair, update, install = machine.logged()
    assert repair == "dpkg --configure -a"
    assert update.endswith(" update")
    assert "--no-install-recommends python3-venv " in install


def test_a_package_that_an_interruption_broke_is_installed_again(machine: Machine) -> None:
    """Unpacked in part: dpkg can't configure it, and apt won't install what depends on it."""
    machine.program("id", "echo 0")
    machine.program("apt-get", 'echo "apt-get $*" >> "$LOG"')
    machine.program("dpkg", "exit 1")
    machine.program("dpkg-query", "echo 'ok gcc:amd64'; echo 'reinstreq libhiredis1.1.0:amd64'")
    done = machine.run("sh", ".ci/install-tools.sh", NO_ENSUREPIP="1")
    assert done.returncode == 0, done.stderr
    update, repair, install = machine.logged()
    assert update.endswith(" update")
    assert repair.endswith(" install -y --reinstall --no-install-recommends libhiredis1.1.0:amd64")
    assert "--no-install-recommends python3-venv " in install
    machine.program("dpkg-query", "echo 'ok gcc:amd64'")
    done = machine.run("sh", ".ci/install-tools.sh", NO_ENSUREPIP="1")
    assert (done.returncode, machine.logged()) == (3, [])
    assert done.stderr.startswith("dpkg failed. Run this as an administrator")


def test_a_refused_sudo_ends_with_the_command(machine: Machine) -> None:
    machine.program("apt-get")
    machine.program("sudo", "echo 'not in the sudoers file' >&2; exit 1")
    done = machine.run("sh", ".ci/install-tools.sh")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("  apt-get install ")


def test_nothing_is_installed_where_all_is_there(machine: Machine) -> None:
    machine.tools()
    done = machine.run("sh", ".ci/install-tools.sh")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_demo_installs_only_what_it_needs(machine: Machine) -> None:
    machine.tools()
    first = machine.run("make", "demo")
    assert first.returncode == 0, first.stderr
    assert machine.logged() == [PIP]
    assert "Installing mlf-sdk into .venv" in first.stdout
    assert machine.run("make", "demo").returncode == 0
    assert machine.logged() == []
    machine.program("ccache")
    machine.run("make", "dev")
    assert machine.logged() == [PIP + "[dev]"]
    machine.run("make", "runtime")
    assert machine.logged() == []


def test_changed_dependencies_are_installed(machine: Machine) -> None:
    machine.tools()
    machine.run("make", "dev")
    machine.logged()
    for mark in (machine.checkout / ".venv").glob(".installed*"):  # made before: clocks of files are coarse
        os.utime(mark, (1, 1))
    machine.run("make", "runtime")
    machine.run("make", "dev")
    assert machine.logged() == [PIP, PIP + "[dev]"]


@pytest.mark.parametrize("place", ["STOP_IN_VENV", "STOP_IN_PIP"])
def test_an_interrupted_installation_is_made_again(machine: Machine, place: str) -> None:
    machine.tools()
    stopped = machine.run("make", "runtime", **{place: "1"})
    assert stopped.returncode != 0
    assert (machine.checkout / ".venv/.unfinished").exists()
    left = machine.checkout / ".venv/half"
    left.touch()
    machine.logged()
    done = machine.run("make", "runtime")
    assert done.returncode == 0, done.stderr
    assert "made again" in done.stdout
    assert machine.logged() == [PIP]
    assert not left.exists()
    assert not (machine.checkout / ".venv/.unfinished").exists()


def test_a_moved_or_copied_checkout_gets_its_own_environment(machine: Machine, tmp_path: Path) -> None:
    machine.tools()
    machine.run("make", "runtime")
    machine.logged()
    copied = tmp_path / "copied"
    shutil.copytree(machine.checkout, copied)
    machine.checkout = copied
    done = machine.run("make", "runtime")
    assert done.returncode == 0, done.stderr
    assert machine.logged() == [PIP]


@pytest.mark.parametrize(("target", "extras"), [("runtime", "embedded"), ("dev", "dev,embedded")])
def test_without_rights_tools_come_from_the_package_index(machine: Machine, target: str, extras: str) -> None:
    """Where nobody may install tools; with sudo, or with all tools, the package index is not asked for them."""
    done = machine.run("make", "tools", target)
    assert done.returncode == 0, done.stderr
    assert "No administrator's rights: Zig, Unicorn, CMake and Ninja" in done.stdout
    assert machine.logged() == [f"{PIP}[{extras}]"]
    machine.program("sudo", "exit 1")
    assert machine.run("make", "tools").returncode != 0
    (machine.programs / "sudo").unlink()
    machine.tools()
    assert "No administrator" not in machine.run("make", "tools").stdout


def test_a_folder_of_the_user_is_left_alone(machine: Machine) -> None:
    mine = machine.checkout / "mine/thesis.txt"
    mine.parent.mkdir()
    mine.touch()
    done = machine.run("make", "runtime", "VENV=mine")
    assert done.returncode != 0
    assert "no virtual environment" in done.stderr
    assert mine.exists()


def test_an_old_python_is_named(machine: Machine) -> None:
    done = machine.run("make", "runtime", OLD="1")
    assert done.returncode != 0
    assert "Python 3.10 or later is needed: python3 is Python 3.9.2" in done.stderr
    assert not (machine.checkout / ".venv").exists()


@pytest.mark.parametrize("flags", [(), ("-fsanitize=fuzzer",)])
def test_a_compiler_without_its_sanitizers_is_not_tested_with_them(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    """As clang is without libclang-rt: it compiles, and can't link."""
    machine.program("clang", 'case "$*" in *-fsanitize*) exit 1 ;; esac')
    machine.program("gcc")
    monkeypatch.setenv("PATH", str(machine.programs))
    assert compiler("clang")
    with pytest.raises(pytest.skip.Exception, match="libclang-rt-dev"):
        sanitizing("clang", *flags)
    assert sanitizing("gcc", *flags) == str(machine.programs / "gcc")
