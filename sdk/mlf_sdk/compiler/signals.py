# SPDX-License-Identifier: Apache-2.0
"""Operators of audio preprocessing in whole numbers; typed and frozen like the others.

From samples to the features of a speech model: window, Fourier transform, energies, mel filters, noise
removal, gain control, logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.compiler.operators import Operator, Stateful


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalWindow(Operator):
    """Samples times the weights of a window, again and again, shifted right by ``shift`` bits and limited."""

    shift: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalAutoScale(Operator):
    """Samples shifted left until the largest fills 16 bits; the second output is the number of bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRfft(Operator):
    """Fourier transform of the rows of x, with zeros behind them up to ``length``, divided by ``length``.

    The output has the real and the imaginary part of each of length / 2 + 1 bins.
    """

    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalEnergy(Operator):
    """Squares of the lengths of the bins ``start`` to ``end - 1`` of a spectrum; 0 for the others."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalFilterBank(Operator):
    """Sums of weighted energies, one a channel.

    Inputs: energies; weights; their complements, with which the same energies count for the next channel; and
    of each channel the first bin, the first weight and the number of bins. There is one channel more than
    results: it stands in front, and only its complements count.
    """

    channels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalSquareRoot(Operator):
    """Rounded roots of 64-bit numbers, shifted right by the second input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalSpectralSubtraction(Stateful):
    """Each channel less its noise, which is estimated over the runs; the second output is the estimate.

    Attributes:
        state: the estimate, with ``smoothing_bits`` more bits than the signal.
        smoothing: weights of the signal and of the old estimate, in even and in odd channels.
        least_left: part of the signal that is left in any case.
        bits: of the fractions of these numbers.
        clamping: the estimate is never above the signal.
    """

    smoothing: tuple[tuple[int, int], tuple[int, int]]
    least_left: int
    smoothing_bits: int
    bits: int
    clamping: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalGain(Operator):
    """Channels times the gain that a table gives for their noise (the second input), then compressed.

    The table (the third input) has the gains of 0 to 2, then those of each power of two: three coefficients
    of a parabola, and one number that is not used.

    Attributes:
        shift: bits by which the product is shifted right.
    """

    shift: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalLog(Operator):
    """Natural logarithms times ``scale`` of channels that are shifted left by ``shift`` bits."""

    shift: int
    scale: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalOverlapAdd(Stateful):
    """Frames (the last axis) added where they overlap; sums of int16 samples are limited after each.

    Attributes:
        state: sums of the samples that frames to come will be added to, one row a stream.
        step: samples from one frame to the next, which are complete with each.
    """

    step: int
