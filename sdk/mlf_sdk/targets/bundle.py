# SPDX-License-Identifier: Apache-2.0
"""Builder of bundles: a model's code, the entry and the runtime's part as one relocatable object."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Final

from mlf_sdk.analysis.elf.objects import read_object
from mlf_sdk.codegen.bundle import header, renames, source, weights, weights_text
from mlf_sdk.codegen.bundleplan import BundlePlan
from mlf_sdk.codegen.options import NEEDED_FLAGS, QUIET_C_FLAGS, ProjectOptions
from mlf_sdk.errors import FaultCollector, InputError
from mlf_sdk.ir.model import CodeUnit, UnitKind, needs_cmsis_nn
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.isa import board_toolchain
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.compilers import cmsis_nn_includes
from mlf_sdk.tools.process import run_process
from mlf_sdk.tools.toolchains import GCC, Toolchain

_RUNTIME: Final = ("src/mlf.c", "src/mlf_backend.c")
_TIMEOUT_S: Final = 600.0
_SECTIONS: Final = ("-ffunction-sections", "-fdata-sections", "-fno-asynchronous-unwind-tables")


def build_bundle(
    plan: BundlePlan, board: Board, options: ProjectOptions, *, dynamic: bool
) -> dict[str, bytes]:
    """Compile and link a bundle.

    Returns:
        Content by file name: object, header, weights and their text.

    Raises:
        ToolError: the compiler is missing, or a source does not compile.
    """
    with tempfile.TemporaryDirectory(prefix="mlf-bundle-") as folder:
        data = _Builder(plan, board, options, Path(folder)).build(dynamic=dynamic)
    needs = tuple(sorted(_undefined(data)))
    constants = weights(plan)
    files = {
        f"{plan.name}.o": data,
        f"{plan.name}.h": header(plan, dynamic=dynamic, needs=needs),
    }
    if constants:
        files[f"{plan.name}.weights.bin"] = constants
        files[f"{plan.name}.weights.txt"] = weights_text(constants)
    return files


def _undefined(data: bytes) -> frozenset[str]:
    info = read_object(data, "bundle", FaultCollector("bundle"))
    return frozenset(info.undefined if info is not None else ())


class _Builder:
    """Sources of one bundle in a folder, and the objects made of them."""

    def __init__(self, plan: BundlePlan, board: Board, options: ProjectOptions, folder: Path) -> None:
        self.plan = plan
        self.model = plan.layout.model
        self.board = board
        self.options = options
        self.folder = folder
        self.renames = renames(plan)

    @cached_property
    def tools(self) -> Toolchain:
        """The compiler with the flags of the CPU, and objcopy."""
        if self.board.platform == "host":
            return Toolchain(name="host", programs=("cc",), flags=("-fPIC",), objcopy="objcopy")
        return board_toolchain(self.board, GCC)

    def build(self, *, dynamic: bool) -> bytes:
        """The object, with only the entry (and the configuration) seen from outside."""
        kept = [self.plan.name, *([f"{self.plan.name}_config"] if dynamic else [])]
        objects = self._compile(dynamic=dynamic)
        objects += [self._renamed(self._write(unit)) for unit in self._linked(UnitKind.OBJECT)]
        joined = self.folder / "joined.o"
        wanted = [f"-Wl,-u,{name}" for name in kept]
        argv = [*self.tools.joiner, "-r", "-nostdlib", "-Wl,--gc-sections", *wanted, "-o", joined.name]
        run_process([*argv, *objects], timeout_s=_TIMEOUT_S, cwd=self.folder)
        names = [f"--keep-global-symbol={name}" for name in kept]
        argv = [self.tools.objcopy, "--strip-unneeded", "--remove-section=.comment", *names, joined.name]
        run_process(argv, timeout_s=_TIMEOUT_S, cwd=self.folder)
        return joined.read_bytes()

    def _compile(self, *, dynamic: bool) -> list[str]:
        crt = data_dir("crt")
        included = {step.abi.unit for step in self.plan.layout.steps if step.abi.unit}
        for unit in self.model.units:
            if unit.kind is UnitKind.HEADER or unit.member in included:
                self._write(unit)
        kinds = (UnitKind.C, UnitKind.CXX, UnitKind.ASSEMBLY)
        code = [u for kind in kinds for u in self._linked(kind)]
        flags = self._kernel_flags()
        renamed = [f"-D{old}={new}" for old, new in sorted(self.renames.items())]
        sources = [(self._write(u), flags + renamed) for u in code if u.member not in included]
        entry = self.folder / f"{self.plan.name}_entry.c"
        entry.write_bytes(source(self.plan, dynamic=dynamic))
        (self.folder / f"{self.plan.name}.h").write_bytes(header(self.plan, dynamic=dynamic, needs=()))
        own = [entry.name, *(str(crt / name) for name in _RUNTIME)]
        sources += [(name, flags if name == entry.name else ["-Os"]) for name in own]
        sources += [(str(path), list(self.options.kernel_flags)) for path in self._cmsis_nn()]
        with ThreadPoolExecutor(max_workers=2) as pool:
            return list(pool.map(self._compile_one, range(len(sources)), *zip(*sources, strict=True)))

    def _compile_one(self, number: int, path: str, flags: list[str]) -> str:
        crt = data_dir("crt")
        folders = {f"model/{u.member}".rpartition("/")[0] for u in self.model.units}
        folders |= {str(crt.parent / folder) for folder in cmsis_nn_includes(self.options)}
        includes = [".", "model", *sorted(folders), str(crt / "include"), str(crt / "src")]
        standard = [] if path.endswith(UnitKind.CXX.value) else ["-std=gnu99"]
        output = f"part{number}.o"
        argv = [*self.tools.argv(), *standard, *flags, *_SECTIONS, *(f"-I{name}" for name in includes)]
        run_process([*argv, "-c", path, "-o", output], timeout_s=_TIMEOUT_S, cwd=self.folder)
        return output

    def _kernel_flags(self) -> list[str]:
        return [*self.options.kernel_flags, *QUIET_C_FLAGS, *NEEDED_FLAGS]

    def _renamed(self, path: str) -> str:
        """An object of the model's code, with the names of symbols that the bundle gives them."""
        pairs = [f"--redefine-sym={old}={new}" for old, new in sorted(self.renames.items())]
        if pairs:
            run_process([self.tools.objcopy, *pairs, path], timeout_s=_TIMEOUT_S, cwd=self.folder)
        return path

    def _linked(self, kind: UnitKind) -> Iterator[CodeUnit]:
        return (unit for unit in self.model.units if unit.linked and unit.kind is kind)

    def _write(self, unit: CodeUnit) -> str:
        path = self.folder / "model" / unit.member
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(unit.data)
        return f"model/{unit.member}"

    def _cmsis_nn(self) -> list[Path]:
        """Sources of CMSIS-NN, where the code needs them; what is not called is left out of the object."""
        if not needs_cmsis_nn(self.model):
            return []
        if self.options.cmsis_nn is None:
            raise InputError(
                "its code calls CMSIS-NN", where=f"model {self.model.name}", hint="Add --cmsis-nn DIR."
            )
        return sorted((Path(self.options.cmsis_nn) / "Source").rglob("*.c"))
