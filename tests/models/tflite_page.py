# SPDX-License-Identifier: Apache-2.0
"""The page that `tflite_table.py` makes of what it measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from corpus import REFUSED, RecordedModel

_HEAD = """# TensorFlow Lite models with recorded outputs

Made by `make tflite-models`: {models} models from public repositories ({whole} whole ones; the others are single operators
or layers), each from its file to a run that is compared with outputs which TensorFlow Lite Micro's reference
kernels gave. On the host {host} agree, on {board} (Cortex-M4F, emulated) {target}.{left} Where there is another result, the row says why.

- equal: every value of every case{cases}.
  Real numbers (layers at the edge of a model) may differ by 1e-5 of the largest one of their tensor; then the
  largest difference is stated. Models of uint8, which TensorFlow Lite Micro refuses,
  are compared with TensorFlow Lite (¹).
- arena: the model's RAM with inputs and outputs; bound: what no plan of these kernels goes below, where it is less.
- flash: the whole image with weights, runtime and what talks to the host.
- instructions: of one inference, exact to 120. plain C: of the kernels of `--asm no`,
  at -O2 (one case where the model has products); the ratio of the two behind it.{plain}
"""
_HALF = 0.5
# What keeps a model above half of plain C, by the first of these operators that it has.
_REASONS = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "functions and requantisation of cells",
    "SVDF": "requantisation and delay line of each filter",
    "CUSTOM:SignalRfft": "logarithms, roots and divisions of signals",
    "TRANSPOSE_CONV": "TRANSPOSE_CONV is plain C, and small",
}


class Row(Protocol):
    """What was measured of a model on a board."""

    @property
    def ok(self) -> bool: ...
    @property
    def result(self) -> str: ...
    @property
    def fault(self) -> str: ...
    @property
    def arena_bytes(self) -> int: ...
    @property
    def least_bytes(self) -> int: ...
    @property
    def flash_bytes(self) -> int: ...
    @property
    def instructions(self) -> int: ...


Found = Mapping[tuple[str, str], Row]


def page(
    models: list[RecordedModel],
    found: Found,
    named: Mapping[str, str],
    boards: tuple[str, ...],
    cases: int | None = None,
    board: str = "mps2-an386",
) -> str:
    """The whole page.

    Args:
        cases: that were run on boards, at most, of each model with products; None: all.
    """
    counts = {at: sum(1 for m in models if _agrees(found.get((m.name, at)))) for at in ("host", board)}
    lines = [
        _HEAD.format(
            models=len(models), whole=sum(m.whole for m in models), host=counts["host"], target=counts[board],
            board=board, left=_left(len(models), found, board), plain=_plain(models, found, board), cases=_cases(cases),
        ),
        "## Whole models", "",
        "| model | operators | host | board | arena B | bound B | flash B | instructions | plain C | |",
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    for model in sorted((m for m in models if m.whole), key=lambda m: m.name):
        lines.append(_whole(model, found, board))
    lines += [
        "", "## Single operators and layers", "",
        "| model | operators | host | board | arena B | instructions |",
        "| --- | --- | --- | --- | ---: | ---: |",
    ]  # fmt: skip
    for model in sorted((m for m in models if not m.whole), key=lambda m: m.name):
        lines.append(_single(model, found, board))
    lines += ["", "## MLPerf Tiny on all boards", "", *_named(found, named, boards)]
    return "\n".join(lines) + "\n"


def _left(models: int, found: Found, board: str) -> str:
    """A sentence about models that were not run; empty where all were."""
    host, target = (models - sum(1 for _, at in found if at == place) for place in ("host", board))
    return f" Not run: {host} on the host, {target} on {board}." if host or target else ""


def _cases(cases: int | None) -> str:
    if cases is None:
        return ""
    said = "of the first case" if cases == 1 else f"of {cases} cases"
    return f" on the host; on boards, of models with products and without a state, {said}"


def _plain(models: list[RecordedModel], found: Found, board: str) -> str:
    """Sentences about plain C; empty where it was not measured."""
    ratios = {
        model.name: (ratio, model)
        for model in sorted(models, key=lambda m: m.name)
        if model.whole and (ratio := _ratio(found, model.name, board))
    }
    if not ratios:
        return ""
    above = [(name, ratio, model) for name, (ratio, model) in ratios.items() if ratio > _HALF]
    slower = sum(1 for _, ratio, _ in above if ratio > 1) or "none"
    text = f"\n  Of {len(ratios)} models {len(ratios) - len(above)} take at most half of plain C, {slower} more than it."
    if above:
        rows = [f"  - {name}: {ratio:.2f}, {_why(model)}" for name, ratio, model in above]
        text += "\n".join([" Above half:", *rows])
    return text


def _ratio(found: Found, name: str, board: str) -> float:
    """Instructions over those of plain C; 0 where one was not measured."""
    row, plain = found.get((name, board)), found.get((name, "plain"))
    if row is None or plain is None or not row.instructions or not plain.instructions:
        return 0.0
    return row.instructions / plain.instructions


def _why(model: RecordedModel) -> str:
    usual = "other layers" if model.macs else "no products"
    return next((why for kind, why in _REASONS.items() if kind in model.operators), usual)


def _agrees(row: Row | None) -> bool:
    return row is not None and row.ok and not row.fault


def _operators(model: RecordedModel) -> str:
    ordered = sorted(model.operators.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(name if count == 1 else f"{name} {count}" for name, count in ordered)


def _name(model: RecordedModel) -> str:
    return model.name if model.truth.startswith("tflite-micro") else f"{model.name} ¹"


def _result(row: Row | None, name: str) -> str:
    if row is None:
        return "not run"
    if row.fault:
        return f"refused: {REFUSED[name]}" if name in REFUSED else row.fault.replace("|", "/")
    return row.result if row.ok else f"FAIL: {row.result}"


def _figures(*numbers: int) -> list[str]:
    return [f"{n:,}" if n else "" for n in numbers]


def _whole(model: RecordedModel, found: Found, board: str) -> str:
    host, row = found.get((model.name, "host")), found.get((model.name, board))
    plain = found.get((model.name, "plain"))
    cells = [_name(model), _operators(model), _result(host, model.name)]
    if row is None or row.fault:
        said = _result(row, model.name)
        cells += ["" if said == cells[-1] else said, *[""] * 6]
    else:
        least = row.least_bytes if row.least_bytes < row.arena_bytes else 0
        cells += [
            _result(row, model.name),
            *_figures(row.arena_bytes, least, row.flash_bytes, row.instructions),
        ]
        ratio = _ratio(found, model.name, board)
        if plain is not None and ratio:
            cells += [*_figures(plain.instructions), f"{ratio:.2f}"]
        else:
            cells += ["", ""]
    return f"| {' | '.join(cells)} |"


def _single(model: RecordedModel, found: Found, board: str) -> str:
    host, row = found.get((model.name, "host")), found.get((model.name, board))
    cells = [_name(model), _operators(model), _result(host, model.name)]
    said = _result(row, model.name)
    cells.append("" if row is not None and row.fault and said == cells[-1] else said)
    cells += _figures(row.arena_bytes, row.instructions) if row is not None else ["", ""]
    return f"| {' | '.join(cells)} |"


def _named(found: Found, named: Mapping[str, str], boards: tuple[str, ...]) -> list[str]:
    """The best-known models on every board: result, and instructions of one inference."""
    lines = [
        "Each by `mlf-sdk run MODEL.tflite --board BOARD`, against the recorded outputs; with the instructions of one inference.",
        "", f"| board | {' | '.join(named)} |", f"| --- |{' --- |' * len(named)}",
    ]  # fmt: skip
    for board in boards:
        rows = [(name, found.get((name, board))) for name in named.values()]
        if all(row is None for _, row in rows):
            continue
        cells = []
        for name, row in rows:
            count = f"; {row.instructions:,}" if row is not None and row.instructions else ""
            cells.append(_result(row, name) + count)
        lines.append(f"| {board} | {' | '.join(cells)} |")
    return lines
