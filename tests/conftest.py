# SPDX-License-Identifier: Apache-2.0
"""What all tests share: a cache of their own, and skips that say what is missing."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shlex
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from compiler_checks import share_checks, write_program
from mlf_sdk.errors import MissingToolError
from mlf_sdk.tools.discovery import known_tools
from mlf_sdk.tools.locks import exclusive

ROOT = Path(__file__).resolve().parents[1]
SHARED_MLF = ROOT.parent / "shared" / "mlf"


READERS = ROOT / "tests" / "readers"
_PATH = os.environ.get("PATH")

hypothesis.settings.register_profile("project", deadline=None)  # no result depends on the machine's load
hypothesis.settings.load_profile("project")


class FailureNames:
    """Names each test as it fails; pytest itself names them only at the end."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._terminal.verbosity <= 0:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message.partition("\n")[0] if crash else ""
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED {report.nodeid} ({report.when}) {reason}", red=True)
            self._terminal.flush()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Name failures at once; let the programs tested hear Ctrl-C even if started in the background."""
    if terminal := config.pluginmanager.getplugin("terminalreporter"):
        config.pluginmanager.register(FailureNames(terminal))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Import the parsers while coverage is measured, and all tests while it is not: that takes a third longer."""
    controller = _measurement(session.config)
    if controller is not None and not session.config.pluginmanager.has_plugin("dsession"):
        for name in controller.cov_source:
            found = importlib.import_module(name)
            for module in pkgutil.walk_packages(getattr(found, "__path__", ()), f"{name}."):
                importlib.import_module(module.name)
        _pause(controller)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure coverage of the parsers' own tests only, so that no other test stands in for a missing one.

    Nor do those that read ``../shared``: what is reached is the same with and without it. It is switched where
    tests of the other kind follow: that takes as long as a small test.
    """
    if controller := _measurement(item.config):
        own = READERS in item.path.parents and item.get_closest_marker("shared") is None
        if own and not controller.started:
            controller.resume()
        elif controller.started and not own:
            _pause(controller)
    return (yield)


def _measurement(config: pytest.Config) -> Any:
    return getattr(config.pluginmanager.getplugin("_cov"), "cov_controller", None)


def _pause(controller: Any) -> None:
    from coverage import Coverage

    controller.pause()
    # In a process of pytest-xdist, pytest-cov starts two measurements and forgets the first, which now goes on.
    while (forgotten := Coverage.current()) is not None:
        forgotten.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Skip a test whose fixture lacks a program."""
    with _skips_what_is_missing():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Skip a test that lacks a program."""
    with _skips_what_is_missing():
        return (yield)


@contextmanager
def _skips_what_is_missing() -> Iterator[None]:
    """Skip a test that ends for want of a program which this machine has not, whatever PATH the test has set."""
    try:
        yield
    except MissingToolError as error:
        names = re.findall(r"'([^']+)'", error.what)
        if names and not any(shutil.which(name, path=_PATH) for name in names):
            pytest.skip(error.what)
        raise
    except FileNotFoundError as error:  # a test that starts a program itself
        name = error.filename
        if name in {"gcc", "g++", *(tool.name for tool in known_tools())} and not shutil.which(
            name, path=_PATH
        ):
            pytest.skip(f"not installed: {name}")
        raise


@pytest.fixture(scope="session")
def session_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for the whole session: all processes of pytest-xdist see the same."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def _cache_of_tests(session_dir: Path) -> Iterator[None]:
    """Keep builds for the session, away from the user's cache; share objects and checks of compilers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(session_dir / "user-cache"))
        if ccache := shutil.which("ccache"):
            _share_objects(Path(ccache), session_dir, patch)
        if cmake := shutil.which("cmake"):
            patch.setenv("PATH", share_checks(cmake, session_dir / "programs", session_dir / "compilers"))
        yield


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's cache of this test alone, where it looks for what one call left there."""
    folder = tmp_path / "own-cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def _share_objects(ccache: Path, session_dir: Path, patch: pytest.MonkeyPatch) -> None:
    """Make CMake compile C by ccache: a source that lies in many projects is compiled once.

    The base directory lets one entry serve all folders. ccache then gives the compiler paths relative to
    the build folder; the prefix map turns them into the names that the projects' own map gives, so the
    objects are the same bytes as without ccache (see tests/provenance/test_reproducible.py, which compares them).
    """
    launcher = session_dir / "compile.sh"
    write_program(launcher, f'#!/bin/sh\nexec {shlex.quote(str(ccache))} "$@" -ffile-prefix-map=..=.\n')
    settings = {"DIR": str(ROOT / "build" / "ccache"), "BASEDIR": "/", "NOHASHDIR": "1", "MAXSIZE": "1G"}
    settings["SLOPPINESS"] = "locale"  # which decides the language of messages, and no object
    for name, value in settings.items():
        patch.setenv(f"CCACHE_{name}", value)
    for language in ("C", "CXX"):
        patch.setenv(f"CMAKE_{language}_COMPILER_LAUNCHER", str(launcher))


@pytest.fixture(scope="session")
def once(session_dir: Path, _cache_of_tests: None) -> Callable[[str, Callable[[Path], None]], Path]:
    """``once(name, make)``: a folder that one process of the session makes and all use."""

    def get(name: str, make: Callable[[Path], None]) -> Path:
        folder = session_dir / "once" / name
        with exclusive(str(folder), 300.0):
            if not (folder / "made").is_file():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                make(folder)
                (folder / "made").touch()
        return folder

    return get


def _need(*programs: str) -> None:
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@pytest.fixture(scope="session")
def needs_cc() -> str:
    """Skips where there is no native compiler; its name."""
    _need("cc")
    return "cc"


@pytest.fixture(scope="session")
def needs_host(needs_cc: str) -> None:
    """Skips where projects can't be built for the host."""
    _need("cmake", "ninja")


@pytest.fixture(scope="session")
def needs_cxx(needs_host: None) -> None:
    """Skips where projects with C++ can't be built for the host."""
    _need("c++")


@pytest.fixture(scope="session")
def needs_arm() -> None:
    """Skips where projects can't be built for Cortex-M."""
    _need("arm-none-eabi-gcc", "arm-none-eabi-objcopy", "cmake", "ninja")


@pytest.fixture(scope="session")
def needs_qemu(needs_arm: None) -> None:
    """Skips where emulated boards can't be built for and booted."""
    _need("qemu-system-arm")


@pytest.fixture(scope="session")
def needs_riscv_qemu() -> None:
    """Skips where boards with RISC-V can't be built for and booted."""
    _need("riscv64-unknown-elf-gcc", "qemu-system-riscv32", "cmake", "ninja")


@pytest.fixture(scope="session")
def shared_mlf() -> Path:
    """The folder of the large real archives; skips where it is missing."""
    if not SHARED_MLF.is_dir():
        pytest.skip(f"no real archives: {SHARED_MLF} is missing")
    return SHARED_MLF
