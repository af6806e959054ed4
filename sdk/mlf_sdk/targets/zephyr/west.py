# SPDX-License-Identifier: Apache-2.0
"""Runs west's commands for a build: in its west workspace, or in a temporary workspace around a tree.

West knows Zephyr's commands (flash, sign) only inside a workspace. Where there is none, a temporary folder
with a link to the tree is one; nothing is fetched, and nothing is left behind.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from mlf_sdk.errors import ToolError
from mlf_sdk.targets.flashers.errors import RunnerMissingError
from mlf_sdk.targets.zephyr.build import ZephyrSetup, build_environment
from mlf_sdk.targets.zephyr.tree import ZephyrTree
from mlf_sdk.targets.zephyr.workspace import workspace_of
from mlf_sdk.tools.process import ProcessResult, run_process
from mlf_sdk.tools.programs import install_hint

_CONFIG = "[manifest]\npath = zephyr\nfile = west.yml\n[zephyr]\nbase = zephyr\n"
_UNKNOWN = re.compile(r"unknown command|invalid choice: '(flash|sign)'")
_NO_MODULE = re.compile(r"No module named '?([A-Za-z0-9_.]+)")


class West(msgspec.Struct, frozen=True, kw_only=True):
    """West, for one build.

    Attributes:
        tree: the Zephyr tree whose commands are run.
        topdir: the workspace to run in; None: there is none.
        environment: the environment variables.
        watch: called with each line of the output; None: no one.
    """

    tree: ZephyrTree
    topdir: Path | None
    environment: Mapping[str, str]
    watch: Callable[[str], None] | None = None

    def run(self, args: list[str], *, timeout_s: float) -> ProcessResult:
        """Run ``west`` with ``args`` to its end, whatever its exit code.

        Raises:
            ToolError: west, or what its commands import, is not installed.
            ProcessError: it was late.
        """
        argv = ["west", *args]
        if self.topdir is not None:
            result = self._in(self.topdir, argv, timeout_s)
            if result.returncode == 0 or not _UNKNOWN.search(result.stdout + result.stderr):
                return result
        with tempfile.TemporaryDirectory(prefix="mlf-west-") as name:
            folder = Path(name)
            (folder / ".west").mkdir()
            (folder / ".west" / "config").write_text(_CONFIG, encoding="utf-8")
            (folder / "zephyr").symlink_to(self.tree.base, target_is_directory=True)
            return self._in(folder, argv, timeout_s)

    def _in(self, folder: Path, argv: list[str], timeout_s: float) -> ProcessResult:
        result = run_process(
            argv, cwd=folder, env=self.environment, timeout_s=timeout_s, check=False, watch=self.watch
        )
        output = result.stdout + result.stderr
        missing = _NO_MODULE.search(output)
        if result.returncode != 0 and missing:
            raise ToolError(
                f"west's Python lacks the package '{missing[1]}'",
                where="west",
                hint="Install what Zephyr's scripts need: "
                f"pip install -r {self.tree.base / 'scripts' / 'requirements.txt'}",
            )
        return result


def west_for(folder: Path, setup: ZephyrSetup, *, watch: Callable[[str], None] | None = None) -> West:
    """West for the project in ``folder``.

    Raises:
        ToolError: there is no tree, or west is not installed.
        InputError: the tree that was given is none.
    """
    tree = setup.tree()
    if shutil.which("west") is None:
        raise RunnerMissingError("'west' is not installed", where=str(folder), hint=install_hint("west"))
    topdir = None if setup.use_west is False else workspace_of(tree.base, (setup.here, folder))
    environment = build_environment(tree, setup, is_native=False)
    return West(tree=tree, topdir=topdir, environment=environment, watch=watch)
