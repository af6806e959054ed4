# SPDX-License-Identifier: Apache-2.0
"""The protocol of witnesses: one module each, one entry of `WITNESSES` in `mlf_sdk.judge.witnesses.panel`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Protocol

from mlf_sdk.errors import MlfError
from mlf_sdk.judge.compare import Tolerance
from mlf_sdk.judge.witnesses.modelfile import ModelFile
from mlf_sdk.tools.arrays import Array


class WitnessUnableError(MlfError):
    """A witness can't run a model; the text says why."""


class WitnessSession(Protocol):
    """A model on a witness; what it keeps from one inference to the next it keeps as the device does."""

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Steps of the model that it does not compute, for people; empty: it computes all."""

    def infer(self, inputs: Sequence[Array]) -> list[Array | None]:
        """Outputs of the next inference, in the order and types of the file; None: not known.

        Args:
            inputs: in the order, types and shapes of the file's.

        Raises:
            WitnessUnableError: it failed, or was late.
        """


class Witness(ABC):
    """Something that computes what a model file means, and shares no kernel with the compiler.

    Attributes:
        name: for options: ``tflm``.
        formats: names of the formats that it reads.
        rtol: least tolerance for floats, relative to the largest magnitude of an output.
    """

    name: ClassVar[str]
    formats: ClassVar[frozenset[str]]
    rtol: ClassVar[float] = 0.0

    @abstractmethod
    def title(self) -> str | None:
        """Name with its version, for people: ``TFLM 2026-10``; None: it is not installed."""

    @abstractmethod
    def open(self, model: ModelFile, timeout_s: float) -> AbstractContextManager[WitnessSession]:
        """Open a model at its first inference.

        Args:
            timeout_s: seconds for loading it, and for each inference.

        Raises:
            WitnessUnableError: it can't run this model.
        """

    def tolerance(self, model: ModelFile, stated: Tolerance, *, integers: bool) -> Tolerance:
        """Permitted difference of an output from this witness.

        Args:
            stated: by the user.
            integers: the output's elements are integers.
        """
        return Tolerance(rtol=max(stated.rtol, self.rtol), atol=stated.atol)

    def remark(self, model: ModelFile) -> str:
        """Addition to its title in the evidence line; empty: nothing."""
        return ""
