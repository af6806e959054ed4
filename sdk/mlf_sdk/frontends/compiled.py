# SPDX-License-Identifier: Apache-2.0
"""Formats of models that are not compiled yet: compiled when they are loaded, and kept in the cache.

The model is made in memory; an archive of it is written where one is asked for: `CompilingFrontend.compile`.
"""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from mlf_sdk.compiler.cores import core_named
from mlf_sdk.compiler.options import Asm, CompileOptions, Goal, Io
from mlf_sdk.errors import InputError, ModuleChoiceError
from mlf_sdk.frontends.filetype import file_kind
from mlf_sdk.frontends.registry import Examination, StatedFrontend, frontends, recognising
from mlf_sdk.frontends.stated import NOTHING, Stated, refuse_statements
from mlf_sdk.ir.model import FileDigest, Model
from mlf_sdk.resources import cache_dir, data_dir
from mlf_sdk.tools.checks import printable
from mlf_sdk.tools.files import write_whole
from mlf_sdk.tools.locks import cache_in_use
from mlf_sdk.tools.rowfile import described
from mlf_sdk.version import __version__

if TYPE_CHECKING:
    from mlf_sdk.compiler.build import CompiledGraph
    from mlf_sdk.compiler.choices import LayerChoice
    from mlf_sdk.compiler.graph import Graph
    from mlf_sdk.compiler.schedule import Choice, Tuner
    from mlf_sdk.compiler.survey import Survey
    from mlf_sdk.ir.model import Finding
    from mlf_sdk.tools.programs import Compiler


@contextmanager
def _without_collection() -> Iterator[None]:
    """Pause the collector of reference cycles, which would walk a large graph again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class CompilingFrontend(StatedFrontend):
    """A format of models that the compiler reads.

    Attributes:
        short: name of the format in reports, e.g. ``ONNX``.
        extension: of its files, for messages.
        packages: Python packages whose versions decide what is read.
    """

    compiles: ClassVar[bool] = True
    short: ClassVar[str]
    extension: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def graph(self, path: Path, name: str, options: CompileOptions) -> Graph:
        """Read the model.

        Args:
            name: of the model; empty: the file's.

        Raises:
            ArchiveError: the file is damaged, or has operators that are not supported; all at once.
            InputError: it is no file of this format.
        """

    def survey(self, path: Path, options: CompileOptions) -> Survey:
        """Survey the model without compiling it; a format overrides this to survey what can't be compiled.

        Raises:
            ArchiveError: the file is damaged.
        """
        from mlf_sdk.compiler.survey import survey_graph

        return survey_graph(self.graph(path, "", options))

    def findings(self, path: Path, options: CompileOptions) -> tuple[Finding, ...]:
        """List what is unusual in the file of a model that can be compiled; a format overrides this."""
        return ()

    def examine(
        self,
        path: Path,
        module: str | None = None,
        stated: Stated = NOTHING,
        compiler: Compiler | None = None,
    ) -> Examination:
        """Compile and analyse the model, and list what is unusual in its file."""
        result = super().examine(path, module, stated, compiler)
        findings = self.findings(path, stated.options or CompileOptions())
        return Examination(model=result.model, findings=(*findings, *result.findings))

    def load_stated(self, path: Path, module: str | None, stated: Stated) -> Model:
        """Compile the model, or take what was compiled earlier."""
        refuse_statements(stated, str(path))
        options = stated.options or CompileOptions()
        with cache_in_use():
            model = kept_model(self._key(path, options), lambda: self.model(path, options))
        if module not in (None, model.name):
            raise ModuleChoiceError(f"no module called '{module}'", where=str(path), names=[model.name])
        return dataclasses.replace(model, provenance=dataclasses.replace(model.provenance, source=str(path)))

    def files(self, path: Path) -> tuple[Path, ...]:
        """Files that the model consists of."""
        return (path,)

    def digest(self, path: Path) -> FileDigest:
        """Name and hash of the model, as an archive that is compiled from it keeps them."""
        sha256 = hashlib.sha256()
        for file in self.files(path):
            sha256.update(file.read_bytes())
        return FileDigest(name=printable(path.name), sha256=sha256.hexdigest())

    def _key(self, path: Path, options: CompileOptions) -> str:
        """Hash of everything that decides what the model is compiled to."""
        versions = map(version_of, ("apache-tvm", *self.packages))
        said = (path.name, options, core_named(options.core), *versions)
        digest = hashlib.sha256(compiler_digest() + repr(said).encode())
        for file in (*self.files(path), *_custom_files(options)):
            digest.update(file.read_bytes())
        return digest.hexdigest()

    def model(self, path: Path, options: CompileOptions, name: str = "") -> Model:
        """Compile the model; arguments and errors as in `graph`.

        Raises:
            InputError: its arena takes more than the options allow.
        """
        from mlf_sdk.frontends.direct import model_of

        with _without_collection():
            compiled = self._compiled(path, options, name)
            return model_of(compiled, options, self.digest(path), self.short)

    def _compiled(
        self, path: Path, options: CompileOptions, name: str = "", tuner: Tuner | None = None
    ) -> CompiledGraph:
        from mlf_sdk.compiler.build import compile_graph

        graph, choice = self._prepared(path, options, name), choice_of(options)
        asm = Asm(options.asm)
        if not options.max_arena:
            return compile_graph(graph, choice, tuner, asm=asm)
        from mlf_sdk.compiler.build import compile_within
        from mlf_sdk.frontends.direct import model_of
        from mlf_sdk.planner.layout import lay_out

        def arena_of(compiled_graph: CompiledGraph) -> int:
            return lay_out(model_of(compiled_graph, options, self.digest(path), self.short)).arena_bytes

        return compile_within(graph, choice, options.max_arena, arena_of, tuner, asm=asm)

    def compile(
        self, path: Path, options: CompileOptions, name: str = "", tuner: Tuner | None = None
    ) -> bytes:
        """Compile the model to an archive, a tar; arguments and errors as in `graph`.

        Args:
            tuner: measures kernels; None: they are chosen by rule.
        """
        from mlf_sdk.frontends.mlf.compiled import archive_of
        from mlf_sdk.frontends.mlf.writer import tar_of

        with _without_collection():
            compiled = self._compiled(path, options, name, tuner)
            return tar_of(archive_of(compiled, options, self.digest(path)))

    def choices(
        self, path: Path, options: CompileOptions, tuner: Tuner | None = None
    ) -> tuple[LayerChoice, ...]:
        """Kernels that were chosen for a model and those that were not; errors as in `graph`."""
        from mlf_sdk.compiler.choices import choices_of

        choice = choice_of(options)
        if options.max_arena:
            return choices_of(self._compiled(path, options).graph, choice, tuner)
        from mlf_sdk.compiler.passes import improve
        from mlf_sdk.compiler.schedule import by_rows

        graph = by_rows(improve(self._prepared(path, options, "")), choice)
        return choices_of(graph, choice, tuner)

    def ram_front(self, path: Path, options: CompileOptions) -> tuple[tuple[int, int], ...]:
        """Choices of layers that run by rows: bytes of RAM by the search, and layers; errors as in `graph`.

        The one of least RAM is the first; none takes less with as many layers. Layer by layer is the last.
        """
        from mlf_sdk.compiler.passes import improve
        from mlf_sdk.compiler.rows.bounded import front_of

        return front_of(improve(self._prepared(path, options, "")), choice_of(options))

    def _prepared(self, path: Path, options: CompileOptions, name: str) -> Graph:
        if options.custom and self.extension != ".tflite":
            raise InputError("only .tflite models have custom operators", where="--custom")
        graph = self.graph(path, name, options)
        if options.io != Io.INT8.value:
            return graph
        from mlf_sdk.compiler.passes.edges import strip_conversions

        return strip_conversions(graph)


def choice_of(options: CompileOptions) -> Choice:
    """Options that decide between kernels."""
    from mlf_sdk.compiler.schedule import Choice

    return Choice(
        goal=Goal(options.goal),
        stream=options.stream,
        frames=options.frames,
        caller_inputs=options.caller_inputs,
        core=core_named(options.core),
    )


def _custom_files(options: CompileOptions) -> list[Path]:
    """Sources of custom operators that are there; the compiler refuses others."""
    files = [Path(part.partition("=")[2]) for part in options.custom.split(";")]
    return [file for file in files if file.is_file()]


def compiling_frontend(path: Path) -> CompilingFrontend:
    """The format of a model that can be compiled.

    Raises:
        InputError: there is no such file, or it is of no such format.
    """
    for frontend in recognising(path, compiles=True):
        if isinstance(frontend, CompilingFrontend):
            return frontend
    known = [frontend for frontend in frontends() if isinstance(frontend, CompilingFrontend)]
    names = ", ".join(frontend.extension for frontend in known)
    titles = ", ".join(one.title for one in known)
    if not path.exists():
        raise InputError("no such file", where=str(path), hint=f"Give one of: {titles}.")
    kind = file_kind(path)
    raise InputError(
        f"not a model of a format that is compiled ({names}): it is {kind.title}",
        where=str(path),
        hint=f"{kind.hint}Give one of: {titles}.",
    )


_CODE: Final = ("analysis", "compiler", "frontends", "ir", "tools")
_DATA: Final = ("cores", "instruction_sets")
_SEAL_BYTES: Final = 32  # SHA-256 before what is kept


def kept_model(key: str, make: Callable[[], Model]) -> Model:
    """The model under ``key``, made where it is not there; one that is damaged is made again.

    Args:
        key: hash of everything that the model depends on, in hex.
    """
    path = cache_dir("compiled") / f"{key[:24]}.model"
    try:
        kept = path.read_bytes()
        content = memoryview(kept)[_SEAL_BYTES:]
        if hashlib.sha256(content).digest() == kept[:_SEAL_BYTES]:
            return msgspec.msgpack.decode(content, type=described(Model))
    except (FileNotFoundError, msgspec.MsgspecError):
        pass
    result = make()
    packed = msgspec.msgpack.encode(result)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, hashlib.sha256(packed).digest() + packed)
    return result


@cache
def compiler_digest() -> bytes:
    """Hash of all code and data of the SDK that decide what a model is compiled to."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256(__version__.encode())
    templates = data_dir("board_templates")
    for folder in (*(package / name for name in _CODE), *(templates / name for name in _DATA)):
        for file in sorted(_files(folder)):
            digest.update(os.fsencode(file.relative_to(folder)) + b"\0" + file.read_bytes())
    return digest.digest()


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.suffix in (".py", ".toml")]


def version_of(package: str) -> str:
    """Version of a Python package that is installed; empty for none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
