# SPDX-License-Identifier: Apache-2.0
"""What TVM 0.8 makes of relay operators: their names in fused functions, and their layouts.

Its passes replace a few operators by others (a convolution on blocked channels, a dense product on
packed weights, a bias by an addition), and insert layout transforms around blocked ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mlf_sdk.frontends.mlf.relay.graph import Node, TensorType
from mlf_sdk.ir.dtype import DType

LAYOUT_TRANSFORM: Final = "layout_transform"
PLAIN: Final = 0
"""The layout that the relay text tells; a positive number is a size of channel blocks (NCHW4c)."""

BLOCKED_CONV: Final = "nn_contrib_conv2d_NCHWc"
BLOCKED_DEPTHWISE: Final = "nn_contrib_depthwise_conv2d_NCHWc"
PACKED_DENSE: Final = "nn_contrib_dense_pack"
_RENAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "nn.bias_add": ("add",),
    "nn.conv2d": ("nn_conv2d", BLOCKED_CONV, BLOCKED_DEPTHWISE),
    "nn.dense": ("nn_dense", PACKED_DENSE),
}
_KEEPS_LAYOUT: Final = frozenset(
    {f"nn.{name}" for name in ("relu", "leaky_relu", "bias_add", "max_pool2d", "avg_pool2d")}
    | {"nn.global_avg_pool2d", "nn.global_max_pool2d", "clip", "sigmoid", "tanh", "exp", "log", "sqrt"}
    | {"rsqrt", "abs", "negative", "floor", "ceil", "round", "erf", "cast", "copy"}
    | {"add", "subtract", "multiply", "divide", "maximum", "minimum"}
)
_NEEDS_PLAIN: Final = frozenset(
    {"nn.dense", "nn.batch_flatten", "reshape", "nn.batch_matmul", "nn.conv1d", "nn.conv3d", "expand_dims"}
)
_REWRITTEN: Final = frozenset({"nn.bias_add", "nn.dense"})
"""Operators whose attributes do not survive as they are printed."""

_C_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "float": ("float32",),
    "double": ("float64",),
    "half": ("float16",),
    "_Float16": ("float16",),
    "__fp16": ("float16",),
    "bool": ("bool",),
    "_Bool": ("bool",),
    "int8_t": ("int8", "bool"),
    "uint8_t": ("uint8", "bool"),
    **{f"{sign}int{bits}_t": (f"{sign}int{bits}",) for sign in ("", "u") for bits in (16, 32, 64)},
}
_INLINED: Final = frozenset({"int32", "int64", "float32", "float64", "bool"})


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a value: known, or anything but ``never`` (the result of a layout transform)."""

    known: int | None = None
    never: int | None = None

    def bound(self, wanted: int) -> Layout | None:
        """This layout when ``wanted`` is needed; None when that is impossible."""
        possible = self.known == wanted if self.known is not None else self.never != wanted
        return Layout(wanted) if possible else None


def fused_names(node: Node) -> tuple[str, ...]:
    """What an operator may be called in the name of a fused function."""
    return _RENAMED.get(node.name, (node.name.replace(".", "_"),))


def c_type_fits(type_name: str, dtype: DType) -> bool:
    """Whether elements of the C type can be those of ``dtype``; anything fits what is never accessed."""
    return not type_name or dtype.name in _C_TYPES.get(type_name, ())


def dtype_of(type_name: str) -> DType | None:
    """The element type that a C type stands for in the first place."""
    names = _C_TYPES.get(type_name)
    return DType.parse(names[0]) if names else None


def is_inlined(type_: TensorType | None, *, is_number: bool) -> bool:
    """Whether a constant is printed into the kernels that use it, so that it is no argument."""
    if type_ is None:
        return is_number
    return type_.shape == () and type_.dtype.name in _INLINED


def comparable_attributes(node: Node) -> tuple[tuple[str, str], ...]:
    """Attributes that differ in two calls only when their kernels do."""
    return () if node.name in _REWRITTEN else tuple(sorted(node.attributes.items()))


def may_follow_transform(node: Node, inputs: int) -> bool:
    """Whether a layout transform may stand before ``node``, which has so many inputs that vary."""
    return not (node.name in _KEEPS_LAYOUT and inputs == 1)


def weights_fit(token: str, weight: TensorType | None, param: tuple[int, ...]) -> bool:
    """Whether the shape of a parameter is that of the rearranged weights; other operators take any."""
    if token == PACKED_DENSE:
        wanted = weight.shape if weight is not None else None
        return len(param) == 3 and (wanted is None or (param[0] * param[2], param[1]) == wanted)
    if token in (BLOCKED_CONV, BLOCKED_DEPTHWISE):
        if len(param) != 6 or (weight is not None and len(weight.shape) != 4):
            return False
        blocks = (param[0] * param[5], param[1] * param[4], param[2], param[3])
        return weight is None or blocks == weight.shape
    return True


@dataclass(frozen=True, slots=True)
class LayoutStep:
    """The layouts of the inputs of an operator after they were decided, and of its result."""

    inputs: tuple[Layout, ...]
    result: Layout


def apply_layouts(
    node: Node, token: str, inputs: Sequence[Layout], param: tuple[int, ...]
) -> LayoutStep | None:
    """Decide the layouts of one operator; None when they don't go together.

    Args:
        node: the operator.
        token: its name in the fused function.
        inputs: layouts of the inputs that are no constants.
        param: shape of the weights of a blocked convolution.
    """
    if token in (BLOCKED_CONV, BLOCKED_DEPTHWISE):
        return _blocked(token, inputs, param)
    if node.name in _NEEDS_PLAIN:
        return _all_bound(inputs, PLAIN)
    known = {layout.known for layout in inputs if layout.known is not None}
    if node.name in _KEEPS_LAYOUT:
        if len(known) > 1:
            return None
        return _all_bound(inputs, known.pop()) if known else LayoutStep(tuple(inputs), Layout())
    plain = all(layout.known == PLAIN for layout in inputs)
    return LayoutStep(tuple(inputs), Layout(PLAIN) if plain else Layout())


def _all_bound(inputs: Sequence[Layout], wanted: int) -> LayoutStep | None:
    bound = [found for layout in inputs if (found := layout.bound(wanted)) is not None]
    return LayoutStep(tuple(bound), Layout(wanted)) if len(bound) == len(inputs) else None


def _blocked(token: str, inputs: Sequence[Layout], param: tuple[int, ...]) -> LayoutStep | None:
    if len(inputs) != 1 or len(param) != 6:
        return None
    data: Layout | None = inputs[0]
    if token == BLOCKED_CONV:
        data = inputs[0].bound(param[4])
    elif inputs[0].known == PLAIN:
        data = None
    return None if data is None else LayoutStep((data,), Layout(param[5]))
