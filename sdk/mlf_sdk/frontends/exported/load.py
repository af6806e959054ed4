# SPDX-License-Identifier: Apache-2.0
"""An exported library as a `Model`: of its graph, or of a straight line of its bytecode."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mlf_sdk.errors import ArchiveError, InputError, ModuleChoiceError
from mlf_sdk.frontends.code import CodeIndex, index_code
from mlf_sdk.frontends.exported.bytecode import Executable, Function
from mlf_sdk.frontends.exported.contents import contents_of
from mlf_sdk.frontends.exported.files import Library
from mlf_sdk.frontends.exported.generation import Generation
from mlf_sdk.frontends.exported.parameters import read_parameters
from mlf_sdk.frontends.exported.pointers import MEMBER, pointer_problem, pointers_of, with_pointers
from mlf_sdk.frontends.exported.program import Program, UnsupportedError, follow
from mlf_sdk.frontends.exported.tree import AotFactory, Content, GraphFactory
from mlf_sdk.frontends.mlf.archive import RawArchive, RawModule, check_params
from mlf_sdk.frontends.mlf.content import NamedTensor
from mlf_sdk.frontends.mlf.graph import parse_graph
from mlf_sdk.frontends.mlf.graph_schedule import schedule_graph
from mlf_sdk.frontends.mlf.rawgraph import NOP, RawGraph
from mlf_sdk.frontends.mlf.rawmetadata import FULL_MODEL, ModuleMetadata
from mlf_sdk.frontends.mlf.schedule import BuildInput, Schedule
from mlf_sdk.frontends.stated import Stated
from mlf_sdk.ir.abi import FFI, PACKED, Abi
from mlf_sdk.ir.model import CodeUnit, MemorySummary, Model, Provenance, Step, UnitKind
from mlf_sdk.ir.names import model_c_name
from mlf_sdk.tools.checks import BoundedFaults, function_name_problem, module_name_problem, shown

_FLAG: Final = "--params-file"


def function_names(library: Library) -> tuple[str, ...]:
    """Names of the functions to choose from; empty when there is no choice."""
    content = _main_content(library)
    return tuple(f.name for f in content.programs) if isinstance(content, Executable) else ()


def build_model(library: Library, function: str | None, stated: Stated) -> Model:
    """The model of a library; one that can't be deployed says why, and holds what is known.

    Raises:
        ArchiveError: graph, bytecode and code contradict each other; all faults at once.
        ModuleChoiceError: it has several functions, and ``function`` names none of them.
        InputError: the parameters given do not fit.
    """
    if stated.outputs or stated.types:
        raise InputError(
            "the file states its inputs, outputs and types itself",
            where=f"{library.source}, {'--output-name' if stated.outputs else '--type'}",
            hint=f"It may lack parameters: {_FLAG} FILE.",
        )
    params = tuple(tensor for path in stated.params for tensor in read_parameters(Path(path)))
    content = _main_content(library)
    builder = _Builder(library, params)
    if isinstance(content, GraphFactory):
        return builder.of_graph(content)
    if isinstance(content, Executable):
        return builder.of_bytecode(content, _choose(library, content, function))
    if isinstance(content, AotFactory):
        reason = "it was compiled for the AOT executor, and nothing in it states the types of its inputs"
        return builder.empty(f"{reason}: export it in the Model Library Format")
    return builder.empty("it is a collection of functions: no graph and no bytecode says what to call")


def _main_content(library: Library) -> Content | None:
    """Content of the first module that is a model."""
    modules = library.modules.modules if library.modules is not None else ()
    kinds = (GraphFactory, Executable, AotFactory)
    return next((m.content for m in modules if isinstance(m.content, kinds)), None)


def _choose(library: Library, code: Executable, name: str | None) -> Function:
    names = [function.name for function in code.programs]
    if name is None and ("main" in names or len(names) == 1):
        name = "main" if "main" in names else names[0]
    if name not in names:
        what = "the bytecode has several functions" if name is None else f"there is no function '{name}'"
        raise ModuleChoiceError(what, where=library.source, names=names)
    return code.programs[names.index(name)]


class _Builder:
    def __init__(self, library: Library, params: tuple[NamedTensor, ...]) -> None:
        self.library = library
        self.params = params
        self.faults = BoundedFaults(library.source)

    @property
    def generation(self) -> Generation | None:
        return self.library.modules.generation if self.library.modules is not None else None

    @property
    def abi(self) -> Abi:
        return FFI if self.generation is not None and self.generation.ffi else PACKED

    @property
    def member(self) -> str:
        return self.library.modules.member if self.library.modules is not None else self.library.name

    # ---- graph executor ----

    def of_graph(self, factory: GraphFactory) -> Model:
        problem = module_name_problem(factory.name)
        if problem is not None:
            self.faults.add(self.member, f"the name of the module {problem}")
        graph = parse_graph(factory.graph, self.member, self.faults)
        if graph is None or self.faults.faults:
            raise ArchiveError(self.library.source, self.faults.faults)
        called = [node.func_name for node in graph.nodes if node.func_name not in (None, NOP)]
        code = self.code(str(name) for name in called)
        params = self.merged(factory.params, graph)
        source = BuildInput(
            archive=RawArchive(source=self.library.source, sha256=self.library.sha256, version=0, modules=()),
            module=RawModule(
                metadata=ModuleMetadata(
                    name=factory.name,
                    style=FULL_MODEL,
                    executors=("graph",),
                    targets=self.library.targets,
                ),
                sources=self.library.code,
                graph=graph,
                graph_member=self.member,
                params=params,
            ),
            code=code,
            faults=self.faults,
        )
        schedule = schedule_graph(source, graph)
        self.faults.raise_if_any()
        steps = tuple(dataclasses.replace(step, abi=self.abi) for step in schedule.steps)
        schedule = dataclasses.replace(schedule, steps=steps)
        return self.model(factory.name, schedule, code, blocked=self.blocked(code))

    def merged(self, own: tuple[NamedTensor, ...], graph: RawGraph) -> tuple[NamedTensor, ...]:
        """Parameters of the library and of the user's file; types and shapes are the graph's."""
        names = [graph.nodes[index].name for index in graph.arg_nodes]
        self.check_given(names, [tensor.name for tensor in own])
        params = (*own, *self.params)
        check_params(params, graph, self.member, self.faults)
        return params

    def check_given(self, names: list[str], bound: list[str]) -> None:
        for tensor in self.params:
            if tensor.name not in names or tensor.name in bound:
                what = "is in the library" if tensor.name in bound else "is unknown to the library"
                free = ", ".join(name for name in names[:20] if name not in bound)
                raise InputError(
                    f"the parameter {shown(tensor.name)} {what}",
                    where=f"{self.library.source}, {_FLAG}",
                    hint=f"Without a value are: {free}" if free else f"Leave out {_FLAG}.",
                )

    # ---- bytecode ----

    def of_bytecode(self, executable: Executable, function: Function) -> Model:
        self.check_given(list(function.parameters), [])
        try:
            program = follow(executable, function, {tensor.name: tensor for tensor in self.params})
        except UnsupportedError as error:
            return self.empty(f"{shown(function.name)} can't be planned: {error}")
        names = list(dict.fromkeys(call.function for call in program.calls))
        for name in names:
            problem = function_name_problem(name)
            if problem is not None:
                self.faults.add(self.member, f"the name of a function {problem}")
        code = self.code(symbol for name in names for symbol in self.candidates(name))
        symbols = {}
        for name in names:
            result = [symbol for symbol in self.candidates(name) if code.defines(symbol)]
            symbols[name] = (result or self.candidates(name))[0]
            if not result:
                what = f"calls {shown(name)}, and no code defines '{symbols[name][:128]}'"
                self.faults.add(self.member, what)
        self.faults.raise_if_any()
        name = self.library.name if function.name == "main" else function.name
        planned = sum(storage.size_bytes for storage in program.storages)
        model = self.model(name, self.schedule(program, symbols), code, blocked=self.blocked(code))
        return dataclasses.replace(model, summary=MemorySummary(workspace_bytes=planned))

    def candidates(self, name: str) -> list[str]:
        """Symbols that a kernel may have: those of a system library have its prefix in them."""
        modules = self.library.modules
        before = modules.generation.kernel_prefix if modules is not None else ""
        system = modules.prefix if modules is not None else ""
        return list(dict.fromkeys([f"{before}{name}", f"{before}{system}{name}"]))

    def schedule(self, program: Program, symbols: dict[str, str]) -> Schedule:
        count = len(program.outputs)
        return Schedule(
            tensors=tuple(program.table.tensors),
            inputs=tuple(program.inputs),
            outputs=tuple(program.outputs),
            output_names=("output",) if count == 1 else tuple(f"output{i}" for i in range(count)),
            steps=tuple(
                Step(
                    index=index,
                    name=call.function,
                    symbol=symbols[call.function],
                    inputs=call.inputs,
                    outputs=call.outputs,
                    abi=self.abi,
                )
                for index, call in enumerate(program.calls)
            ),
            executor="bytecode",
        )

    # ---- both ----

    def code(self, called: Iterable[str]) -> CodeIndex:
        """The code of the library; of a file without linkable code, the symbols that are known."""
        if self.library.code:
            code = with_pointers(index_code(self.library.code, self.faults), self.faults)
            self.faults.raise_if_any()
            return code
        defined = frozenset(called) if self.library.defined is None else self.library.defined
        nothing: dict[str, tuple[str, ...]] = dict.fromkeys(defined, ())
        return CodeIndex(files={}, scans={}, objects={}, functions={}, defined_in=nothing, parts={})

    def blocked(self, code: CodeIndex) -> str:
        """The reason why the code can't be linked; empty for none."""
        if self.library.code:
            return pointer_problem(code)
        if self.library.machine:
            return (
                f"it is a shared library of {self.library.machine} machine code, from which nothing can be "
                "linked: export it as .tar, with the C target or for the board's CPU"
            )
        return "the file has no code, only modules: give the whole .tar"

    def empty(self, reason: str) -> Model:
        nothing = Schedule(tensors=(), inputs=(), outputs=(), output_names=(), steps=(), executor="library")
        return self.model(self.library.name, nothing, self.code(()), blocked=reason)

    def model(self, name: str, schedule: Schedule, code: CodeIndex, *, blocked: str) -> Model:
        entries = list(dict.fromkeys(step.symbol for step in schedule.steps))
        linked = set(code.reachable(entries))
        units = code.units(linked)
        exports: tuple[str, ...] = ()
        if any(unit.linked and unit.kind is UnitKind.OBJECT for unit in units):
            exports = (*entries, *pointers_of(code))
            units = tuple(_linked_unit(unit, exports) for unit in units)
        return Model(
            name=name,
            c_name=model_c_name(name),
            provenance=Provenance(
                format="TVM exported library",
                format_version="",
                compiler="TVM",
                compiler_version=self.generation.title if self.generation is not None else "",
                sha256=self.library.sha256,
                source=self.library.source,
            ),
            executor=schedule.executor,
            targets=self.library.targets,
            tensors=schedule.tensors,
            inputs=schedule.inputs,
            outputs=schedule.outputs,
            output_names=schedule.output_names,
            steps=schedule.steps,
            units=units,
            summary=MemorySummary(),
            symbol_prefix=f"tvmgen_{name}_" if schedule.executor == "graph" else "",
            exports=exports,
            is_analysed=bool(blocked),
            blocked=blocked,
            contents=contents_of(self.library),
        )


def _linked_unit(unit: CodeUnit, exports: tuple[str, ...]) -> CodeUnit:
    """A unit beside objects that are joined to one, of which only ``exports`` are seen."""
    if unit.kind is UnitKind.OBJECT:
        return dataclasses.replace(unit, symbols=tuple(s for s in unit.symbols if s in exports))
    return dataclasses.replace(unit, linked=True) if unit.member == MEMBER else unit
