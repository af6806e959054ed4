# SPDX-License-Identifier: Apache-2.0
"""Arguments of the Python functions: sources, a prepared request and keyword arguments become one request."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.declare import Options
from mlf_sdk.pipeline.request import Request

Source = str | Path
Sources = Source | tuple[Source, ...] | list[Source]


def make_request(
    source: Sources | None,
    request: Request | None,
    options: Mapping[str, Any],
) -> Request:
    """Make a request from the arguments of a Python API function.

    Args:
        source: path or paths; None: those of ``request``.
        request: options that were prepared.
        options: keyword arguments; they win over ``request``.

    Raises:
        InputError: an unknown option, or an invalid value.
    """
    given = {name: _plain(value) for name, value in options.items()}
    if isinstance(given.get("pre"), Mapping):
        given["pre"] = msgspec.json.encode(given["pre"]).decode()
    base = request if request is not None else Request()
    if source is not None:
        paths = [source] if isinstance(source, str | Path) else list(source)
        given["source"] = tuple(str(path) for path in paths)
    made = base.replace(**given)
    if not made.source:
        raise InputError("no archive or project was given")
    return made


def check_output(source: Path, output: Path) -> None:
    """Refuse an output that would replace the source.

    Raises:
        InputError: both are one file.
    """
    if output.resolve() == source.resolve():
        raise InputError("it would replace the model", where="--output", hint="Give another path.")


Own = TypeVar("Own", bound=Options)


def own_options(of: type[Own], own: Own | None, options: Mapping[str, Any]) -> tuple[Own, dict[str, Any]]:
    """Split keyword arguments into a command's own options and those of the request.

    Args:
        of: the dataclass of the command's own options.
        own: prepared options; keyword arguments win over them.
        options: all keyword arguments.

    Returns:
        The own options, and what is left for the request.
    """
    names = {field.name for field in dataclasses.fields(of)}
    given = {name: _plain(value) for name, value in options.items() if name in names}
    made = of(**given) if own is None else dataclasses.replace(own, **given)
    return made, {name: value for name, value in options.items() if name not in names}


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Paths become strings and lists tuples, so that a request stays serialisable."""
    if isinstance(value, Path):
        return str(value)
    return tuple(_plain(item) for item in value) if isinstance(value, list | tuple) else value
