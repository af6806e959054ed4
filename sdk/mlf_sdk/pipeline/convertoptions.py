# SPDX-License-Identifier: Apache-2.0
"""Options of ``convert`` beside those of the request; light to import, for the command line's help."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.pipeline.declare import Options, option


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions(Options):
    """Options of ``convert`` beside those of the request."""

    output: str = option(
        "",
        "Archive to write, or folder for the files of a bundle.",
        flags=("-o", "--output"),
        metavar="PATH",
        required=True,
    )
    to: str = option(
        "mlf",
        "mlf: an archive in the Model Library Format; bundle: object, header and weights as Glow makes them.",
        choices=("mlf", "bundle"),
        metavar="FORMAT",
    )
    api: str = option(
        "static",
        "Bundle: static: sizes and offsets are macros of the header; dynamic: a configuration in the object.",
        choices=("static", "dynamic"),
        metavar="API",
    )
