# SPDX-License-Identifier: Apache-2.0
"""Names that the shell completes: boards, runners, ports, targets."""

from __future__ import annotations


def names_for(kind: str) -> list[tuple[str, str]]:
    """List names of a kind, each with a description.

    Args:
        kind: ``board``, ``runner``, ``port`` or ``target``.

    Raises:
        InputError: a row of a board or runner is damaged.
    """
    return {"board": _boards, "runner": _runners, "port": _ports, "target": _targets}[kind]()


def _boards() -> list[tuple[str, str]]:
    from mlf_sdk.targets.boards.load import load_boards

    return [(row.name, row.title) for row in load_boards().values()]


def _runners() -> list[tuple[str, str]]:
    from mlf_sdk.targets.flashers.load import load_runners

    return [(row.name, row.title) for row in load_runners().values()]


def _ports() -> list[tuple[str, str]]:
    from mlf_sdk.targets.serial.ports import list_serial_ports

    return [("auto", "found by the board's USB ids")] + [
        (port.device, port.description) for port in list_serial_ports()
    ]


def _targets() -> list[tuple[str, str]]:
    from mlf_sdk.targets.registry import target_schemes

    schemes = [(f"{name}:", "a registered kind of target") for name in target_schemes()]
    return [*_boards(), ("dir:", "a project as it is"), ("port:", "a board on a port"), *schemes]
