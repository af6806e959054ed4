# SPDX-License-Identifier: Apache-2.0
"""Reading of the section ``[pre]`` of a configuration; light to import."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.ir.tensor import AUDIO_KEYS, IMAGE_KEYS, InputFacts, Section
from mlf_sdk.tools.rowfile import described, faults_text

NAME: Final = "pre"
_INTEGERS: Final = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}
_EXAMPLE: Final = 'State frame = "rgb565" (or another format) for images, rate = 16000 (Hz) for sound.'


def section_of(given: str | Path | Mapping[str, Any]) -> Section:
    """Section of a TOML file, of a mapping, or of its JSON text.

    Raises:
        InputError: there is none, or all that is wrong with its keys.
    """
    if isinstance(given, Mapping):
        return _checked(dict(given), f"[{NAME}]")
    if str(given).startswith("{"):
        return _checked(msgspec.json.decode(str(given)), f"[{NAME}]")
    try:
        values = msgspec.toml.decode(Path(given).read_bytes(), type=dict)
    except (OSError, ValueError) as error:
        raise InputError(f"can't read the section [{NAME}]: {error}", where=str(given)) from error
    if NAME not in values:
        values = values.get("tool", {}).get("mlf-sdk", {})  # of pyproject.toml
    if NAME not in values:
        raise InputError(f"no section [{NAME}]", where=str(given), hint=_EXAMPLE)
    return _checked(values[NAME], f"{given}: [{NAME}]")


def _checked(values: Any, where: str) -> Section:  # noqa: ANN401 (any TOML value)
    try:
        result = msgspec.convert(values, described(Section))
    except msgspec.ValidationError as error:
        from mlf_sdk.tools.rowfaults import type_faults  # only where something is wrong

        faults = [str(fault) for fault in type_faults(values, Section)] or [str(error)]
        raise InputError(faults_text(faults), where=where) from error
    kinds = [key for key in ("frame", "rate") if getattr(result, key) is not None]
    if len(kinds) != 1:
        what = "both frame and rate" if kinds else "neither frame nor rate"
        raise InputError(f"it states {what}", where=where, hint=_EXAMPLE)
    alien = [key for key in (AUDIO_KEYS if kinds == ["frame"] else IMAGE_KEYS) if key in values]
    if alien:
        kind = "images" if kinds == ["frame"] else "sound"
        raise InputError(f"{', '.join(alien)}: not for {kind}", where=where, hint="Leave it out.")
    return result


def refuse(key: str, what: str, hint: str = "") -> NoReturn:
    """Refuse the value of a key.

    Raises:
        InputError: with the key.
    """
    raise InputError(what, where=f"[{NAME}] {key}".rstrip(), hint=hint)


def stored_limits(facts: InputFacts, what: str) -> tuple[int, int] | None:
    """Lowest and highest stored value of an input; None for floats.

    Args:
        what: is written to it, for messages.

    Raises:
        InputError: it has another type, or no scale.
    """
    if facts.dtype not in (*_INTEGERS, "float32"):
        refuse("input", f"it is {facts.dtype}: {what} are written as {', '.join((*_INTEGERS, 'float32'))}")
    if facts.dtype in _INTEGERS and not facts.scale:
        hint = "State them: --quantisation NAME=SCALE,ZERO_POINT."
        refuse("input", "its scale and zero point are not stated", hint)
    return _INTEGERS.get(facts.dtype)


def section_text(section: Section) -> str:
    """JSON text that `section_of` reads back."""
    return msgspec.json.encode(section).decode()
