# SPDX-License-Identifier: Apache-2.0
"""The frontend of TVM's Model Library Format."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Final

from mlf_sdk.frontends.analysis import analyse
from mlf_sdk.frontends.filetype import is_container
from mlf_sdk.frontends.intake.bytestream import ArchiveStream
from mlf_sdk.frontends.intake.limits import DEFAULT_LIMITS, StopReadingError
from mlf_sdk.frontends.intake.tarstream import TarReader
from mlf_sdk.frontends.mlf.archive import load_mlf
from mlf_sdk.frontends.mlf.findings import module_findings
from mlf_sdk.frontends.mlf.load import load_model, read_module, schedule_model
from mlf_sdk.frontends.mlf.rawmetadata import OPERATOR
from mlf_sdk.frontends.registry import Examination, Frontend
from mlf_sdk.frontends.stated import NOTHING, Stated, refuse_statements
from mlf_sdk.ir.model import Model
from mlf_sdk.tools.programs import Compiler

_TYPICAL: Final = re.compile(
    r"(?:\./)?(?:(?:[^/]+/)?metadata\.json|(?:codegen/host|executor-config|runtime-config)/.*)"
)


class MlfFrontend(Frontend):
    """Archives that ``tvm.micro.export_model_library_format`` writes."""

    name = "mlf"
    title = "TVM's Model Library Format"

    def recognise(self, path: Path) -> bool:
        """Look for a member that every archive has; a damaged tar counts as one."""
        if not is_container(path):
            return False
        return _typical_folder(path) if path.is_dir() else _typical_tar(path)

    def load(self, path: Path, module: str | None = None) -> Model:
        """Load one module of an archive; in operator style, one function."""
        return load_model(path, module=module)

    def modules(self, path: Path) -> tuple[str, ...]:
        """Names of the modules, in the order of the metadata; of operator archives, of the functions."""
        raw = load_mlf(path).modules
        if len(raw) == 1 and raw[0].metadata.style == OPERATOR:
            return tuple(raw[0].metadata.operator_args)
        return tuple(module.metadata.name for module in raw)

    def examine(
        self,
        path: Path,
        module: str | None = None,
        stated: Stated = NOTHING,
        compiler: Compiler | None = None,
    ) -> Examination:
        """Load one module and compare what the archive states with its code."""
        refuse_statements(stated, str(path))
        source = read_module(load_mlf(path), module)
        loaded = schedule_model(source, module)
        model = analyse(loaded, compiler)
        entry = analyse(loaded, compiler, as_compiled=True) if loaded.executor == "aot" else model
        return Examination(model=model, findings=module_findings(source, entry))


def _typical_folder(path: Path) -> bool:
    inside = [path, *islice((entry for entry in path.iterdir() if entry.is_dir()), 64)]
    return (path / "codegen" / "host").is_dir() or any((p / "metadata.json").exists() for p in inside)


def _typical_tar(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            reader = TarReader(ArchiveStream(file, DEFAULT_LIMITS))
            count = 0
            while (member := reader.next()) is not None and count < DEFAULT_LIMITS.members:
                count += 1
                if _TYPICAL.fullmatch(member.name):
                    return True
    except StopReadingError:
        return True  # damaged: the reader says how
    return count == 0
