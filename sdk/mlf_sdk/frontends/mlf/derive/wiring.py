# SPDX-License-Identifier: Apache-2.0
"""Ahead-of-time models whose archive lacks the main function: the order of calls, derived.

TVM 0.8 exports some ahead-of-time builds without the function that calls the kernels. The model is
still all there: the kernels, the parameters in the order of their use, and the relay text of what
was compiled. There is a wiring when exactly one way to call the kernels agrees with all of these,
and none otherwise: a plausible order is not enough.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Final

from mlf_sdk.frontends.kernels import kernel_step
from mlf_sdk.frontends.mlf.derive.check import (
    CallPlan,
    beyond,
    call_plan,
    is_consistent,
    operator_name,
    unused,
)
from mlf_sdk.frontends.mlf.derive.groups import Effort
from mlf_sdk.frontends.mlf.derive.kernels import UnderivableError, find_kernels
from mlf_sdk.frontends.mlf.derive.relay import LiveGraph
from mlf_sdk.frontends.mlf.derive.rules import LAYOUT_TRANSFORM, PLAIN, fused_names
from mlf_sdk.frontends.mlf.derive.search import Search
from mlf_sdk.frontends.mlf.derive.state import Call, Progress, State
from mlf_sdk.frontends.mlf.graph_model import output_names
from mlf_sdk.frontends.mlf.params import NamedTensor
from mlf_sdk.frontends.mlf.parts import BuildInput, TensorTable, Wiring, operator_workspaces
from mlf_sdk.frontends.mlf.relay.graph import NodeKind, Use, parse_relay_graph
from mlf_sdk.frontends.mlf.relay.text import UnreadableRelayError
from mlf_sdk.ir.model import Step, StepAbi, TensorKind

MAX_CALLS: Final = 1000
"""Operators of a model."""

MAX_CHOICES: Final = 64
"""Ways to tell inputs from parameters by their sizes."""

NOTE: Final = (
    "the archive lacks its main function (TVM 0.8 leaves it out of some ahead-of-time builds): the order of "
    "calls was derived from the relay text, the kernels and the parameters"
)


def derive_wiring(source: BuildInput, prefix: str) -> Wiring | None:
    """The steps of an ahead-of-time model whose main function is declared but not defined.

    Args:
        source: the archive; its faults get one that says why when there is no wiring.
        prefix: ``tvmgen_<module>`` as the kernels' symbols begin.

    Returns:
        One step a kernel call, executor ``aot``; None when not exactly one order of calls agrees with
        the relay text, the kernels' code and the parameters.
    """
    try:
        return _Derivation(source, prefix).wiring()
    except (UnderivableError, UnreadableRelayError) as error:
        source.faults.add(
            "./codegen/host",
            "the archive was exported without its main function, and the order of calls can't be derived "
            f"from the relay text: {error}",
        )
        return None


class _Derivation:
    def __init__(self, source: BuildInput, prefix: str) -> None:
        self.source = source
        self.module = source.module
        self.graph = parse_relay_graph(source.module.relay or "")
        calls = [node for node in self.graph.nodes if node.kind is NodeKind.CALL]
        words = {name for node in calls for name in fused_names(node)}
        if LAYOUT_TRANSFORM in words or len(calls) > MAX_CALLS:
            raise UnderivableError("the model has layout transforms of its own, or too many operators")
        self.params = _in_order(self.module.params)
        self.kernels = find_kernels(source.code, f"{prefix}_", words | {LAYOUT_TRANSFORM})

    def wiring(self) -> Wiring:
        """The wiring; UnderivableError when there is not exactly one."""
        effort, progress = Effort(), Progress()
        found: dict[CallPlan, tuple[State, LiveGraph]] = {}
        live: LiveGraph | None = None
        for parameters in self._choices():
            live = LiveGraph(self.graph, parameters)
            for state in Search(live, self.kernels, self.params, effort, progress).solutions():
                if is_consistent(state, live, self.kernels):
                    found.setdefault(call_plan(state, live), (state, live))
                if len(found) > 1:
                    raise UnderivableError(_difference(*found))
        if not found:
            raise UnderivableError(self._missing(progress.best, live))
        (state, live), *_ = found.values()
        if reason := beyond(state):
            raise UnderivableError(f"it is not certain that {reason} is large enough")
        return _Wirer(self.source, state, live).wiring()

    def _missing(self, best: State | None, live: LiveGraph | None) -> str:
        """What stayed open in the assignment that came furthest."""
        if best is None or live is None:
            return "no argument of main can be told from a parameter"
        kernels = [kernel.short_name[:128] for kernel in unused(best, self.kernels)]
        operators = [operator_name(live, node) for node in sorted(live.live - best.covered)]
        parts = [
            f"{what} {', '.join(names[:5])}{' and more' if len(names) > 5 else ''} stay unassigned"
            for what, names in (("the kernels", kernels), ("the operators", operators))
            if names
        ]
        if not parts:
            return "sizes, parameters or layouts contradict each other"
        return "no assignment of the kernels fits; in the best one " + " and ".join(parts)

    # ---- inputs and parameters ----

    def _choices(self) -> Iterator[frozenset[int]]:
        """Ways to say which arguments of main are parameters."""
        arguments = self.graph.arguments
        names = self._input_names()
        if names is not None:
            fields = {index: _field(self.graph.nodes[index].name) for index in arguments}
            inputs = [index for index in arguments if fields[index] in names]
            if sorted(fields[index] for index in inputs) != sorted(names):
                raise UnderivableError("the inputs of the interface are not those of the relay text")
            yield frozenset(arguments) - frozenset(inputs)
            return
        used = {use.node for node in self.graph.nodes for use in node.args}
        if not used.issuperset(arguments):
            raise UnderivableError("an argument of main is not used, and may be an input or a parameter")
        yield from self._by_size(arguments)

    def _input_names(self) -> tuple[str, ...] | None:
        """Inputs as fields of the C interface, where it or the metadata tells them."""
        if self.module.interface is not None:
            return self.module.interface.inputs
        main = self.module.metadata.main[0] if self.module.metadata.main else None
        return tuple(_field(name) for name in main.inputs) if main and main.inputs else None

    def _by_size(self, arguments: tuple[int, ...]) -> Iterator[frozenset[int]]:
        """As many arguments of each size are parameters as there are parameters of that size."""
        by_size: dict[int, list[int]] = {}
        for index in arguments:
            type_ = self.graph.nodes[index].types[0]
            size = type_.elements * type_.dtype.size_bytes if type_ is not None else -1
            by_size.setdefault(size, []).append(index)
        counts = {size: sum(p.size_bytes == size for p in self.params) for size in by_size}
        picked = [(group, min(counts[size], len(group))) for size, group in by_size.items()]
        if math.prod(math.comb(len(group), count) for group, count in picked) > MAX_CHOICES:
            raise UnderivableError("inputs and parameters can't be told apart by their sizes")
        ways = [list(itertools.combinations(group, count)) for group, count in picked]
        for choice in itertools.product(*ways):
            yield frozenset(itertools.chain.from_iterable(choice))


class _Wirer:
    """Turns the one assignment into tensors and steps."""

    def __init__(self, source: BuildInput, state: State, graph: LiveGraph) -> None:
        self.source = source
        self.state = state
        self.graph = graph
        self.params = _in_order(source.module.params)
        self.table = TensorTable()
        self.tensor: dict[tuple[str, int, int], int] = {}

    def wiring(self) -> Wiring:
        inputs = self._inputs()
        for index, param in enumerate(self.params):
            self.tensor["param", index, 0] = self.table.add(
                param.name, param.dtype, param.shape, TensorKind.CONSTANT, data=param.data
            )
        steps = tuple(self._step(index, call) for index, call in enumerate(self.state.calls))
        outputs = tuple(self.tensor[self.state.values[i].source] for i in self.state.results)
        header = self.source.module.interface
        if header is not None and len(header.outputs) != len(outputs):
            raise UnderivableError(f"the interface has {len(header.outputs)} outputs, main {len(outputs)}")
        tensors = self.table.tensors
        return Wiring(
            tensors=tuple(tensors),
            inputs=inputs,
            outputs=outputs,
            output_names=output_names(self.source, [tensors[o].size_bytes for o in outputs]),
            steps=steps,
            executor="aot",
            notes=(NOTE,),
        )

    def _inputs(self) -> tuple[int, ...]:
        """Tensors of the inputs, in the order of the interface or else of main."""
        order = [i for i in self.graph.graph.arguments if i not in self.graph.parameters]
        header = self.source.module.interface
        if header is not None:
            order.sort(key=lambda i: header.inputs.index(_field(self.graph.node(i).name)))
        for index in order:
            type_ = self.graph.type_of(Use(index))
            if type_ is None:
                raise UnderivableError("the type of an input is not known")
            name = self.graph.node(index).name
            self.tensor["input", index, 0] = self.table.add(name, type_.dtype, type_.shape, TensorKind.INPUT)
        return tuple(self.tensor["input", index, 0] for index in order)

    def _step(self, index: int, call: Call) -> Step:
        symbol = call.kernel.symbol
        inputs = tuple(self.tensor[self.state.values[i].source] for i in call.inputs)
        outputs = tuple(self._result(i, symbol) for i in call.outputs)
        function = self.source.code.functions[symbol]
        step = kernel_step(
            self.source.code,
            self.source.faults,
            index=index,
            name=symbol,
            symbol=symbol,
            inputs=inputs,
            outputs=outputs,
            metadata_bytes=operator_workspaces(self.source.module).get(symbol),
            abi=StepAbi.PACKED if function.is_packed else StepAbi.POINTERS,
        )
        if step.abi is StepAbi.POINTERS and not step.exact:
            raise UnderivableError(f"the workspace of {symbol[:128]} is not known")
        return step

    def _result(self, index: int, symbol: str) -> int:
        value = self.state.values[index]
        if value.dtype is None:
            raise UnderivableError(f"the element type of the result of {symbol[:128]} is not known")
        type_ = self.graph.type_of(value.use)
        told = type_ is not None and value.layout.known == PLAIN
        shape = type_.shape if type_ is not None and told else (value.elements,)
        name = symbol if value.source[2] == 0 else f"{symbol}:{value.source[2]}"
        self.tensor[value.source] = self.table.add(name, value.dtype, shape, TensorKind.INTERMEDIATE)
        return self.tensor[value.source]


def _in_order(params: tuple[NamedTensor, ...]) -> tuple[NamedTensor, ...]:
    """Parameters by their numbers; UnderivableError when they are not called p0, p1, ..."""
    by_name = {param.name: param for param in params}
    names = [f"p{index}" for index in range(len(params))]
    if set(by_name) != set(names):
        raise UnderivableError("the parameters are not called p0, p1, ...")
    return tuple(by_name[name] for name in names)


def _difference(first: CallPlan, second: CallPlan) -> str:
    """Where two assignments part."""
    if first.inputs != second.inputs:
        return "the inputs can't be told from the parameters"
    for one, other in zip(first.calls, second.calls, strict=False):
        if one[0] != other[0]:
            return f"it is ambiguous whether {one[0][:128]} or {other[0][:128]} is called"
        if one != other:
            return f"it is ambiguous what {one[0][:128]} is called with"
    return "the results of main are ambiguous"


def _field(name: str) -> str:
    """A tensor's name as the field of TVM's interface structs: other characters become ``_``."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
