# SPDX-License-Identifier: Apache-2.0
"""Statements of the witnesses of a model file about outputs."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.judge.compare import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessResult:
    """Comparison with what one witness says about the model file.

    Attributes:
        witness: its name with its version: ``TFLM 2026-10``.
        text: the same, with how many inferences and within what, where that is to be said.
        comparison: with its outputs; None: it gave none.
        why: reason why it gave none.
    """

    witness: str
    text: str
    comparison: Comparison | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnessed:
    """All that the witnesses of a model's file say of its outputs.

    Attributes:
        needed: the model was compiled here: its kernels, compared with themselves, prove nothing of it.
        results: of each witness that is installed and reads the format.
        uncovered: steps that none of them computes, or that no output shows.
        steps: of the model file; 0: it was not read.
        why: reason why there is no witness: the file is not at hand.
        disagreement: which witnesses contradict each other; empty: none do.
    """

    needed: bool = False
    results: tuple[WitnessResult, ...] = ()
    uncovered: tuple[str, ...] = ()
    steps: int = 0
    why: str = ""
    disagreement: str = ""

    @property
    def compared(self) -> tuple[WitnessResult, ...]:
        """Witnesses that gave outputs."""
        return tuple(result for result in self.results if result.comparison is not None)

    @property
    def wrong(self) -> tuple[str, ...]:
        """Names of witnesses that outputs differ from."""
        return tuple(r.witness for r in self.results if r.comparison is not None and not r.comparison.ok)

    @property
    def is_lacking(self) -> bool:
        """True where a witness is needed and none gave outputs."""
        return self.needed and not self.compared

    @property
    def lack(self) -> str:
        """Reasons why no witness gave outputs."""
        silent = [f"{result.witness}: {result.why}" for result in self.results if result.why]
        return "; ".join(filter(None, [self.why, *silent]))

    @property
    def evidence(self) -> str:
        """Names of the witnesses that gave outputs; empty: none did."""
        return " + ".join(result.text for result in self.compared)

    @property
    def uncovered_text(self) -> str:
        """Number and names of the steps that no witness covers; empty: all are covered."""
        if not self.uncovered:
            return ""
        shown = ", ".join(self.uncovered[:5]) + (", ..." if len(self.uncovered) > 5 else "")
        return f"{len(self.uncovered)} of {self.steps} steps: {shown}"
