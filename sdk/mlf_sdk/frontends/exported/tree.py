# SPDX-License-Identifier: Apache-2.0
"""The serialized modules of a library: import tree and content, in both layouts.

Old: ``u64 count | count x (str key, payload)``; the key ``_import_tree`` comes last, an unknown key can't
be passed over. New: ``vec<u64> row pointers | vec<u64> children | n x (str kind, str payload unless _lib)``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from mlf_sdk.frontends.exported.bytecode import Executable, read_executable
from mlf_sdk.frontends.exported.generation import Generation
from mlf_sdk.frontends.exported.stream import Stream
from mlf_sdk.frontends.mlf.content import NamedTensor
from mlf_sdk.frontends.mlf.params import Damaged, read_tensor
from mlf_sdk.tools.checks import shown

LIBRARY: Final = "_lib"
"""Kind of the code of the library itself."""

_TREE: Final = "_import_tree"
_RELAX: Final = ("relax.Executable", "relax.VMExecutable")
_MAX_MODULES: Final = 4096


class GraphFactory(msgspec.Struct, frozen=True, kw_only=True):
    """A graph executor's model: its graph as JSON, its parameters, its name."""

    graph: bytes
    params: tuple[NamedTensor, ...]
    name: str


class AotFactory(msgspec.Struct, frozen=True, kw_only=True):
    """An ahead-of-time model: its parameters and its name."""

    params: tuple[NamedTensor, ...]
    name: str


class ConstantLoader(msgspec.Struct, frozen=True, kw_only=True):
    """Constants of modules that other compilers made.

    Attributes:
        symbols: modules, with the names of the constants that each gets.
    """

    constants: tuple[NamedTensor, ...]
    symbols: tuple[tuple[str, tuple[str, ...]], ...]


Content = GraphFactory | AotFactory | ConstantLoader | Executable | bytes


class Module(msgspec.Struct, frozen=True, kw_only=True):
    """One module.

    Attributes:
        content: decoded; as bytes where the kind is not known.
        imports: indices of modules.
    """

    kind: str
    content: Content
    imports: tuple[int, ...] = ()


def read_modules(data: bytes, start: int, generation: Generation) -> tuple[Module, ...]:
    """Read the serialized modules, the first of which is the root.

    Args:
        data: all of it; offsets in errors count from its beginning.
        start: byte behind the total length.

    Raises:
        Damaged: it is broken, or has a kind that can't be read.
    """
    stream = Stream(data, start)
    read = _tree_first if generation.tree_first else _tree_last
    modules = read(stream, generation)
    if stream.left:
        raise Damaged(f"{stream.left} bytes behind the last module", stream.at)
    return modules


def _tree_first(stream: Stream, generation: Generation) -> tuple[Module, ...]:
    at = stream.at
    rows, children = stream.numbers("row pointers", most=_MAX_MODULES), stream.numbers("imported modules")
    imports = _imports(rows, children, max(len(rows) - 1, 0), at)
    modules = []
    for index, imported in enumerate(imports):
        kind = stream.text(f"the kind of module {index}")
        content: Content = b""
        if kind != LIBRARY:
            part = stream.part(f"module {shown(kind)}")
            content = _content(kind, part, generation)
        modules.append(Module(kind=kind, content=content, imports=imported))
    return tuple(modules)


def _tree_last(stream: Stream, generation: Generation) -> tuple[Module, ...]:
    result: list[tuple[str, Content]] = []
    tree: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    at = stream.at
    for index in range(stream.count("modules", 8, _MAX_MODULES)):
        place = stream.at
        key = stream.text(f"the key of module {index}")
        if tree is not None:
            raise Damaged(f"{shown(key)} behind the import tree", place)
        if key == _TREE:
            at = stream.at
            tree = stream.numbers("row pointers"), stream.numbers("imported modules")
        else:
            result.append((key, _payload(key, stream, generation, [kind for kind, _ in result], place)))
    if tree is None and LIBRARY not in dict(result):  # before 0.7 the library imports all modules
        result.insert(0, (LIBRARY, b""))
        tree = (0, *[len(result) - 1] * len(result)), tuple(range(1, len(result)))
    if tree is None:
        raise Damaged("there is no import tree", at)
    imports = _imports(*tree, len(result), at)
    return tuple(Module(kind=k, content=c, imports=i) for (k, c), i in zip(result, imports, strict=True))


def _payload(kind: str, stream: Stream, generation: Generation, before: list[str], at: int) -> Content:
    """Read the payload of a module of the old layout, where its length follows from its kind alone."""
    if kind in (LIBRARY, "metadata_module"):
        return b""
    if kind in _RELAX:
        return read_executable(stream.part(f"module {shown(kind)}"), generation.constants)
    if kind in _DECODED:
        return _DECODED[kind](stream)
    read = ", ".join(map(shown, before)) or "none"
    raise Damaged(f"the kind {shown(kind)} is not known, and nothing states its length; read: {read}", at)


def _content(kind: str, part: Stream, generation: Generation) -> Content:
    """Decode a payload of the new layout; one of an unknown kind stays as it is."""
    if kind in _RELAX:
        return read_executable(part, generation.constants)
    if kind not in _DECODED:
        return part.take(part.left, kind)
    result = _DECODED[kind](part)
    if part.left:
        raise Damaged(f"{part.left} bytes behind the content of {shown(kind)}", part.at)
    return result


def _graph_factory(stream: Stream) -> GraphFactory:
    graph = stream.content("the graph")
    params = _params(stream)
    return GraphFactory(graph=graph, params=params, name=stream.text("the name of the module"))


def _aot_factory(stream: Stream) -> AotFactory:
    params = _params(stream)
    return AotFactory(params=params, name=stream.text("the name of the module"))


def _params(stream: Stream) -> tuple[NamedTensor, ...]:
    """Parameters: their number, their names, their tensors."""
    at, count = stream.at, stream.u64("the number of parameters")
    names = stream.texts("names of parameters")
    if len(names) != count:
        raise Damaged(f"{count} parameters, and {len(names)} names", at)
    return tuple(read_tensor(stream, name) for name in names)


def _constant_loader(stream: Stream) -> ConstantLoader:
    names = stream.texts("names of constants")
    at, count = stream.at, stream.count("constants", 8)
    if count != len(names):
        raise Damaged(f"{count} constants, and {len(names)} names", at)
    constants = tuple(read_tensor(stream, name) for name in names)
    symbols = stream.texts("names of modules")
    at, count = stream.at, stream.count("lists of constants", 8)
    if count != len(symbols):
        raise Damaged(f"{count} lists of constants, and {len(symbols)} modules", at)
    lists = tuple((symbol, stream.texts("names of constants")) for symbol in symbols)
    return ConstantLoader(constants=constants, symbols=lists)


_DECODED: Final[Mapping[str, Callable[[Stream], Content]]] = {
    "GraphExecutorFactory": _graph_factory,
    "GraphRuntimeFactory": _graph_factory,
    "AotExecutorFactory": _aot_factory,
    "const_loader": _constant_loader,
    "metadata": _constant_loader,
}


def _imports(
    rows: Sequence[int], children: Sequence[int], modules: int, at: int
) -> tuple[tuple[int, ...], ...]:
    """Imports of each module of the tree, which has no cycle."""
    ordered = all(a <= b for a, b in pairwise(rows))
    if len(rows) != modules + 1 or rows[0] != 0 or rows[-1] != len(children) or not ordered:
        raise Damaged(f"the row pointers of the import tree do not fit its {modules} modules", at)
    if any(child >= modules for child in children):
        raise Damaged(f"the import tree names module {max(children)} of {modules}", at)
    imports = tuple(tuple(children[a:b]) for a, b in pairwise(rows))
    waiting = Counter(children)
    ready = [index for index in range(modules) if not waiting[index]]
    for index in ready:
        for child in imports[index]:
            waiting[child] -= 1
            if not waiting[child]:
                ready.append(child)
    if len(ready) != modules:
        raise Damaged("modules of the import tree import each other in a cycle", at)
    return imports
