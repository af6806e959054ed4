# SPDX-License-Identifier: Apache-2.0
"""Formats of compiled models: the interface of a frontend, and the table of those known.

A format is one folder (or one class of another package) that recognises its files by content and loads
them as a `Model`. Another package adds one through the entry-point group ``mlf_sdk.frontends``, a program
through `register_frontend`.
"""

from __future__ import annotations

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.frontends.filetype import file_kind, is_container, is_tflite, may_be_any, may_be_library
from mlf_sdk.frontends.stated import NOTHING, Stated, refuse_statements
from mlf_sdk.resources import imported

if TYPE_CHECKING:
    from mlf_sdk.ir.model import Finding, Model
    from mlf_sdk.tools.programs import Compiler

ENTRY_POINTS: Final = "mlf_sdk.frontends"
"""Entry-point group of other packages; each names a class derived from `Frontend`."""


class _BuiltIn(msgspec.Struct, frozen=True):
    """A format of this package, which is imported only for files that may be of it.

    Attributes:
        place: of its class in this package.
        may_be: returns whether a file can be of the format, by its first bytes.
        compiles: as in `Frontend`.
    """

    place: str
    may_be: Callable[[Path], bool]
    compiles: bool = False

    def frontend(self) -> Frontend:
        result: Frontend = imported(f"frontends.{self.place}")()
        return result


_BUILT_IN: Final = {
    "mlf": _BuiltIn("mlf.frontend:MlfFrontend", is_container),
    "tflite": _BuiltIn("tflite.frontend:TfliteFrontend", is_tflite, compiles=True),
    "exported": _BuiltIn("exported.frontend:ExportedFrontend", may_be_library),
    "onnx": _BuiltIn("onnx.frontend:OnnxFrontend", may_be_any, compiles=True),
    "torch": _BuiltIn("torch.frontend:TorchFrontend", may_be_any, compiles=True),
    "glow": _BuiltIn("glow.frontend:GlowFrontend", may_be_any),
}
_registered: dict[str, Frontend] = {}


class Frontend(ABC):
    """A format of compiled models.

    Attributes:
        name: short and unique, e.g. ``mlf``.
        title: for people, e.g. ``Model Library Format``.
        compiles: models of the format are compiled when they are loaded.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    compiles: ClassVar[bool] = False

    @abstractmethod
    def recognise(self, path: Path) -> bool:
        """Return whether ``path`` is of this format, by its content: cheap, bounded, without errors.

        A damaged file of the format is recognised: `load` then says what is wrong with it.
        """

    @abstractmethod
    def load(self, path: Path, module: str | None = None) -> Model:
        """Load the model in ``path``.

        Args:
            module: name of the model to load, where the file holds several.

        Raises:
            ArchiveError: the file is broken; all of its faults at once.
            ModuleChoiceError: it holds several models, and ``module`` names none of them.
        """

    def modules(self, path: Path) -> tuple[str, ...]:
        """Names of the models in ``path`` that `load` can be asked for; empty when there is no choice."""
        return ()

    def files(self, path: Path) -> tuple[Path, ...]:
        """Files that belong to the model in the file ``path``, itself among them."""
        return (path,)

    def load_stated(self, path: Path, module: str | None, stated: Stated) -> Model:
        """Load the model as `load` does, with facts that the user states because the file does not.

        Raises:
            InputError: the format holds those facts itself.
        """
        refuse_statements(stated, str(path))
        return self.load(path, module)

    def examine(
        self,
        path: Path,
        module: str | None = None,
        stated: Stated = NOTHING,
        compiler: Compiler | None = None,
    ) -> Examination:
        """Load the model as `load_stated` does, analyse it for a compiler, and list what is unusual."""
        from mlf_sdk.frontends.analysis import analyse

        return Examination(model=analyse(self.load_stated(path, module, stated), compiler))


class StatedFrontend(Frontend):
    """A format whose files may lack facts that the user states."""

    def load(self, path: Path, module: str | None = None) -> Model:
        """See Frontend."""
        return self.load_stated(path, module, NOTHING)

    @abstractmethod
    def load_stated(self, path: Path, module: str | None, stated: Stated) -> Model:
        """Load the model in ``path``, with facts that the user states because the file does not.

        Raises:
            ArchiveError, ModuleChoiceError: as `load`.
            InputError: a fact that the file holds itself, or that it can't have.
        """


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """A model, and the findings about the file that it came from."""

    model: Model
    findings: tuple[Finding, ...] = ()


def register_frontend(frontend: Frontend) -> None:
    """Add a format to those that this process knows; it is asked before the built-in ones.

    Raises:
        InputError: a format of that name exists.
    """
    if frontend.name in _BUILT_IN or frontend.name in _registered:
        raise InputError(f"there is a format '{frontend.name}' already", where="register_frontend")
    _registered[frontend.name] = frontend


def unregister_frontend(name: str) -> None:
    """Remove a format that `register_frontend` added; of other names, do nothing."""
    _registered.pop(name, None)


def registered_frontends() -> tuple[Frontend, ...]:
    """Formats that `register_frontend` added, for processes that are started from this one."""
    return tuple(_registered.values())


def frontends() -> Iterator[Frontend]:
    """All known formats, registered ones first; a built-in one is imported when its turn comes.

    Raises:
        InputError: an entry point of another package can't be loaded.
    """
    yield from _registered.values()
    yield from (one.frontend() for one in _BUILT_IN.values())
    yield from _installed()


def recognising(path: Path, *, compiles: bool = False) -> Iterator[Frontend]:
    """Formats of ``path``, by its content; those that it can't be of are not imported.

    Args:
        compiles: only formats whose models are compiled when they are loaded.

    Raises:
        InputError: an entry point of another package can't be loaded.
    """
    built_in = (one for one in _BUILT_IN.values() if one.compiles or not compiles)
    known = itertools.chain(
        _registered.values(),
        (one.frontend() for one in built_in if _holds(one.may_be, path)),
        _installed(),
    )
    for frontend in known:
        if (frontend.compiles or not compiles) and _holds(frontend.recognise, path):
            yield frontend


def _holds(question: Callable[[Path], bool], path: Path) -> bool:
    try:
        return question(path)
    except OSError:
        return False


def _installed() -> Iterator[Frontend]:
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        try:
            result = point.load()()
        except Exception as error:
            raise InputError(
                f"the format '{point.name}' can't be loaded: {error}",
                where=f"entry point {point.value} of {point.dist.name if point.dist else 'a package'}",
                hint="Repair or remove that package.",
            ) from error
        yield result


def files_of(path: Path) -> tuple[Path, ...]:
    """Files that belong to the model in the file ``path``; a file of no known format stands alone.

    Raises:
        InputError: an entry point of another package can't be loaded.
    """
    with contextlib.suppress(OSError):
        for frontend in recognising(path):
            return frontend.files(path)
    return (path,)


def find_frontend(path: Path) -> Frontend:
    """The format of ``path``, by its content.

    Raises:
        InputError: the file can't be read, or is of no known format; says what it looks like.
    """
    for frontend in recognising(path):
        return frontend
    kind = file_kind(path)
    known = ", ".join(f"{frontend.name} ({frontend.title})" for frontend in frontends())
    raise InputError(
        f"not a compiled model of a known format: it is {kind.title}",
        where=str(path),
        hint=f"{kind.hint}Known formats: {known}.",
    )
