# SPDX-License-Identifier: Apache-2.0
"""Names in pictures: shortened but distinct."""

from __future__ import annotations

from collections.abc import Sequence

from mlf_sdk.codegen.lock import LockModel, LockStep
from mlf_sdk.judge.profile import Profile, StepProfile


def anchor_of(step: int) -> str:
    """Id of the card of a step on the page."""
    return f"step-{step}"


def source_anchor(name: str) -> str:
    """Id of the card of a function's source on the page."""
    return f"source-{name}"


def short_names(names: Sequence[str]) -> list[str]:
    """Remove the common prefix of whole words from names."""
    prefix = shared_prefix(names)
    return [name.removeprefix(prefix).removeprefix("fused_") or name for name in names]


def step_labels(model: LockModel) -> list[str]:
    """Operators of a model's steps, else their names without their common prefix."""
    return _labels(model.steps, [model.label(step.name) for step in model.steps])


def profile_names(profile: Profile) -> list[str]:
    """Operators of the rows of a profile, else their names without their common prefix."""
    return _labels(profile.steps, [s.name.removeprefix(profile.symbol_prefix) for s in profile.steps])


def _labels(steps: Sequence[LockStep | StepProfile], names: Sequence[str]) -> list[str]:
    named = zip(steps, short_names(names), strict=True)
    return [name if step.layer is None else step.layer.text for step, name in named]


def shared_prefix(names: Sequence[str]) -> str:
    """Common prefix of names in whole words joined by ``_``; empty for fewer than two names."""
    if len(names) < 2:
        return ""
    first, last = min(names), max(names)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    cut = first[:length].rfind("_") + 1
    while cut and not all(any(map(str.isalpha, name[cut:])) for name in names):
        cut = first.rfind("_", 0, cut - 1) + 1  # the rest must hold letters
    return first[:cut]


def shorten(text: str, most: int) -> str:
    """Shorten ``text`` to at most ``most`` characters by omitting its middle."""
    if len(text) <= most:
        return text
    if most < 2:
        return text[:most]
    tail = (most - 1) // 3
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :] if tail else ''}"
