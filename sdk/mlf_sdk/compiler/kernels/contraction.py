# SPDX-License-Identifier: Apache-2.0
"""Description of a layer of sums of products with weights, which all kernels that can compute it read.

Convolutions of any kind and matrix products have one form here: images in and out, a window, weights as rows, the
bounds of their sums, and the requantisations that are exact for these. A kernel states what differs: the layers
that it fits, its tile, how it packs weights, and its code.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from functools import cached_property
from typing import Final

import msgspec
import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.kernel import Kernel, Overlaps, Tile, arguments, of_windows
from mlf_sdk.compiler.kernels.layer_sums import Sums, sum_bounds
from mlf_sdk.compiler.kernels.rescale import (
    Chooser,
    Form,
    Rescale,
    choose_fine,
    choose_rescale,
    low_words,
)
from mlf_sdk.compiler.operators import (
    Array,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Layer,
    Operator,
    TransposeConv,
    Window,
)
from mlf_sdk.compiler.requantise import Multiplier, has_wide_sums, layer_multipliers


class Kind(enum.Enum):
    """Form of a layer; the value is the family of its usual kernels."""

    CONVOLUTION = "conv"
    DEPTHWISE = "depthwise"
    TRANSPOSED = "transpose_conv"
    DENSE = "dense"


_KINDS: Final[dict[type[Operator], Kind]] = {
    Conv2D: Kind.CONVOLUTION,
    DepthwiseConv2D: Kind.DEPTHWISE,
    TransposeConv: Kind.TRANSPOSED,
    FullyConnected: Kind.DENSE,
}
_SHIFT: Final = 12  # that is exact for most layers: those of equal tiles share code
_PIXEL: Final = Window(size=(1, 1), stride=(1, 1))


class Contraction(msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=False):
    """A layer; what takes time to find is found once.

    Attributes:
        x, y: input and output as NHWC images; a matrix is one row of pixels.
        window: of one pixel for a matrix product.
        depth: channels of the input that one of the output reads.
        clamp: lowest and highest result, in stored values.
    """

    graph: Graph
    operator: Layer
    kind: Kind
    x: Value
    weights: Value
    y: Value
    window: Window
    depth: int
    clamp: tuple[float, float]

    @classmethod
    def of(cls, graph: Graph, operator: Layer) -> Contraction:
        """The layer of an operator."""
        x, weights = graph.read(operator)[:2]
        (y,) = graph.written(operator)
        window, depth = _PIXEL, weights.shape[-1]
        if isinstance(operator, FullyConnected):
            pixels = x.elements // depth
            x = dataclasses.replace(x, shape=(1, 1, pixels, depth))
            y = dataclasses.replace(y, shape=(1, 1, pixels, weights.shape[0]))
        else:
            window = operator.window
        return cls(
            graph=graph,
            operator=operator,
            kind=_KINDS[type(operator)],
            x=x,
            weights=weights,
            y=y,
            window=window,
            depth=1 if isinstance(operator, DepthwiseConv2D) else depth,
            clamp=operator.clamp,
        )

    @property
    def channels(self) -> int:
        """Channels of the output."""
        return self.y.shape[3]

    @property
    def multiplier(self) -> int:
        """Channels of the output that read a channel of the input, of a depthwise layer."""
        return self.channels // self.x.shape[3]

    @property
    def is_grouped(self) -> bool:
        """True for a convolution whose outputs read some of the channels of the input only."""
        return self.kind is Kind.CONVOLUTION and self.depth != self.x.shape[3]

    @property
    def is_real(self) -> bool:
        """True for single-precision numbers."""
        return all(v.dtype == np.float32 for v in (self.x, self.weights, self.y))

    @property
    def is_constant(self) -> bool:
        """True for weights that the model holds."""
        return self.weights.data is not None

    @property
    def has_wide_sums(self) -> bool:
        """True for sums of 64 bits."""
        return has_wide_sums(self.graph, self.operator)

    @property
    def wraps(self) -> bool:
        """True for sums of int16 values in 32 bits, which may wrap."""
        return self.y.dtype == np.int16 and not self.has_wide_sums

    @property
    def sum_type(self) -> str:
        """C type of a sum."""
        if self.is_real:
            return "float"
        return "int64_t" if self.has_wide_sums else "uint32_t" if self.wraps else "int32_t"

    def is_int8(self, *, unsigned: bool = False) -> bool:
        """Return whether this is one image of int8 values, with constant int8 weights, without groups.

        Args:
            unsigned: weights may be uint8, too.
        """
        types = (np.int8, np.uint8) if unsigned else (np.int8,)
        of_bytes = self.x.dtype == np.int8 and self.weights.dtype in types
        return of_bytes and self.is_constant and self.x.shape[0] == 1 and not self.is_grouped

    @property
    def is_one_pixel(self) -> bool:
        """True for the product of a matrix and a single row."""
        return self.kind is Kind.DENSE and self.x.shape[2] == 1

    @cached_property
    def rows(self) -> Array:
        """Weights as they are stored, a row a channel of the output."""
        data = self.weights.constant
        if self.kind is Kind.DEPTHWISE:
            return data.reshape(-1, self.channels).T
        return data.reshape(self.channels, -1)

    @cached_property
    def centred(self) -> Array:
        """Weights less their zero point."""
        zero_point = self.weights.zero_point
        return self.rows.astype(np.int16) - zero_point if zero_point else self.rows

    @cached_property
    def bias(self) -> Array:
        """Biases, one a channel: float32 or int64; zeros without any."""
        return self.graph.bias(self.operator)

    @cached_property
    def multipliers(self) -> tuple[Multiplier, ...]:
        """One multiplier a channel."""
        return layer_multipliers(self.operator, self.x, self.weights, self.y, self.channels)

    @property
    def has_one_scale(self) -> bool:
        """True where all channels have the same multiplier."""
        return len(set(self.multipliers)) == 1

    @cached_property
    def bounds(self) -> Array:
        """Lowest and highest sum of each channel, shape (channels, 2)."""
        info, zero_point = np.iinfo(self.x.dtype), self.x.zero_point
        return sum_bounds(self.centred, self.bias, info.min - zero_point, info.max - zero_point)

    @cached_property
    def sums(self) -> Sums:
        """Sums of the layer, for the choice of a requantisation."""
        zero_point = self.y.zero_point
        return Sums(multipliers=self.multipliers, zero_point=zero_point, bounds=self.bounds, clamp=self.clamp)

    @property
    def widest(self) -> Array:
        """Lowest and highest sum of all channels, shape (1, 2)."""
        return np.array([[self.bounds[:, 0].min(), self.bounds[:, 1].max()]])

    @cached_property
    def _sums_of_all(self) -> Sums:
        return msgspec.structs.replace(self.sums, multipliers=self.multipliers[:1], bounds=self.widest)

    @cached_property
    def _fine(self) -> Rescale | None:
        shared = choose_fine(self.sums, _SHIFT)
        return shared if shared is not None and shared.form is Form.FINE else choose_fine(self.sums)

    def rescale(self, choose: Chooser = choose_rescale, *, fine: bool = False) -> Rescale | None:
        """The cheapest exact requantisation of int8 results; None where only the general one is exact.

        Args:
            fine: that of sums times 256 is taken where there is one.
        """
        if fine and self._fine is not None:
            return self._fine
        return None if self.sums.is_general else choose(self.sums)

    def rescale_of_all(self, choose: Chooser) -> Rescale | None:
        """`rescale` with words that are exact for the sums of all channels, where that is not the general one."""
        widest = msgspec.structs.replace(self.sums, bounds=self.widest.repeat(self.channels, axis=0))
        return self.rescale(choose) if widest.is_general else choose(widest)

    def fine_of_all(self, only: int = 0) -> Rescale | None:
        """One row of words for all channels of a layer with one scale; None where none is exact for all their sums.

        Args:
            only: see `choose_fine`.
        """
        result = choose_fine(self._sums_of_all, only) if self.has_one_scale else None
        return None if result is None or result.constant.any() else result

    def starts(self, rescale: Rescale) -> Array:
        """Words that the sums of channels start with: biases less what the zero point of the input contributes."""
        return low_words(rescale.folded(self.bias, self.centred, self.x.zero_point) * rescale.unit)

    @property
    def overlaps(self) -> Overlaps:
        """Overlaps of a kernel that makes one pixel after the other, channel by channel."""
        return of_windows(self.x, self.y, self.window, self.channels - 1)

    def kernel(
        self,
        family: str,
        body: str,
        helpers: Mapping[str, str],
        constants: tuple[Array, ...],
        overlaps: Overlaps,
        *,
        workspace_bytes: int = 0,
        workspace: str = "int32_t",
        variant: str = "",
        tile: Tile | None = None,
    ) -> Kernel:
        """Kernel of the layer, which passes its input, constants, output and the workspace.

        Args:
            workspace: C type of the workspace's elements.
            tile: as of `Kernel`.
        """
        workspace = workspace if workspace_bytes else ""
        return Kernel(
            family,
            arguments(self.graph, self.operator, reads=1, constants=constants, workspace=workspace),
            body,
            helpers=helpers,
            constants=constants,
            workspace_bytes=workspace_bytes,
            overlaps=overlaps,
            variant=variant,
            tile=tile,
        )
