# SPDX-License-Identifier: Apache-2.0
"""Custom operators, each run alone on this machine, on the values that a witness has."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Custom, Operator
from mlf_sdk.errors import MissingToolError, MlfError
from mlf_sdk.judge.witnesses.witness import Supply, WitnessUnableError
from mlf_sdk.pipeline.opentarget import OpenTarget
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import HOST, Request
from mlf_sdk.tools.arrays import Array
from mlf_sdk.tools.files import write_whole


@contextmanager
def code_of(timeout_s: float, graph: Graph) -> Iterator[Supply]:
    """Run custom operators of a graph while the context lasts; each is built when it is first asked for.

    An operator gets the values that the witness has, not those of the compiled model: a layer in front that
    is compiled wrong can't hide behind it. Code that keeps something between its runs keeps it here, too.
    Nothing is known of an operator without inputs or without a compiler for this machine, nor of the kernels
    of other generators, whose nodes have a meaning that another witness knows.

    Args:
        timeout_s: of each run.

    Raises:
        WitnessUnableError: by what is yielded: the code can't be built alone, or it fails.
    """
    with ExitStack() as stack:
        opened: dict[int, OpenTarget | None] = {}

        def supply(operator: Operator, inputs: list[Array | None]) -> list[Array] | None:
            free = _free(graph, operator)
            given = dict(zip(operator.inputs, inputs, strict=True))
            known = [array for array in (given[number] for number in free) if array is not None]
            if not isinstance(operator, Custom) or not free or len(known) != len(free):
                return None
            try:
                if operator.number not in opened:
                    opened[operator.number] = _open(stack, graph, operator)
                target = opened[operator.number]
                return None if target is None else target.infer(known, timeout_s=timeout_s)
            except MlfError as error:
                name = f"{operator.number} {operator.kind}"
                raise WitnessUnableError(f"the code of step {name} alone: {error.what}") from error

        yield supply


def _free(graph: Graph, operator: Operator) -> tuple[int, ...]:
    """Values that an operator reads and that are no constants, each once."""
    return tuple(i for i in dict.fromkeys(operator.inputs) if graph.values[i].data is None)


def _open(stack: ExitStack, graph: Graph, operator: Operator) -> OpenTarget | None:
    """A model of one operator on this machine; None: there is no compiler for it."""
    from mlf_sdk.compiler.build import compile_graph  # all kernels take time to load
    from mlf_sdk.compiler.schedule import Choice
    from mlf_sdk.frontends.mlf.compiled import archive_of
    from mlf_sdk.frontends.mlf.writer import tar_of

    alone = Graph(
        name="operator",
        values=graph.values,
        operators=(operator,),
        inputs=_free(graph, operator),
        outputs=operator.outputs,
    )
    compiled = compile_graph(alone, Choice())
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mlf-operator-")))
    archive = folder / "operator.tar"
    write_whole(archive, tar_of(archive_of(compiled)))
    pipeline = Pipeline()
    stack.callback(pipeline.close)
    try:
        return stack.enter_context(pipeline.open(Request(source=(str(archive),), board=HOST)))
    except MissingToolError:
        return None
