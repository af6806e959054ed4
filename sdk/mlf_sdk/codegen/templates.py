# SPDX-License-Identifier: Apache-2.0
"""Templates of generated files, each compiled once a process."""

from __future__ import annotations

from functools import cache

import jinja2

from mlf_sdk.codegen.context import Values
from mlf_sdk.resources import data_dir
from mlf_sdk.version import __version__


@cache
def environment() -> jinja2.Environment:
    """Environment of the templates: undefined names are errors, nothing is escaped for HTML."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("board_templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 (the output is C and CMake)
    )


def template_text(name: str, values: Values) -> bytes:
    """Render one template of ``board_templates``."""
    return environment().get_template(name).render(sdk_version=__version__, **values).encode()
