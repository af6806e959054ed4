# SPDX-License-Identifier: Apache-2.0
"""Templates of generated files; what jinja2 makes of them is kept between runs."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cache

import jinja2
from jinja2.bccache import Bucket

from mlf_sdk.errors import MlfError
from mlf_sdk.resources import cache_dir, data_dir
from mlf_sdk.tools.ctext import Values
from mlf_sdk.tools.files import write_whole
from mlf_sdk.version import __version__

_HASH_BYTES = hashlib.sha256().digest_size


class CompiledTemplates(jinja2.BytecodeCache):
    """Compiled templates, each in a file behind its hash; one that is damaged is compiled again.

    jinja2 itself compares the source of a template and the version of Python.
    """

    def __init__(self) -> None:
        versions = f"{__version__}-{jinja2.__version__}"
        self.folder = cache_dir("templates") / versions

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill ``bucket`` with what was kept."""
        with suppress(OSError):
            data = (self.folder / bucket.key).read_bytes()
            if hashlib.sha256(data[_HASH_BYTES:]).digest() == data[:_HASH_BYTES]:
                bucket.bytecode_from_string(data[_HASH_BYTES:])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled."""
        data = bucket.bytecode_to_string()
        with suppress(OSError, MlfError):  # such as a home that is read-only
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self.folder / bucket.key, hashlib.sha256(data).digest() + data)


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
        bytecode_cache=CompiledTemplates(),
    )


def template_text(name: str, values: Values) -> bytes:
    """Render one template of ``board_templates``."""
    return environment().get_template(name).render(sdk_version=__version__, **values).encode()
