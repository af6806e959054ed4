# SPDX-License-Identifier: Apache-2.0
"""Options of ``package make`` beside those of the request; light to import, for the command line's help."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from mlf_sdk.pipeline.declare import Options, between, option

_target_option = partial(option, group="Target")
_input_option = partial(option, group="Inputs")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageOptions(Options):
    """Options of ``package make`` beside those of the request."""

    output: str = option("", "Package to write.", flags=("-o", "--output"), metavar="FILE", required=True)
    project: str = _target_option(
        "", "Project of the firmware that the package is for.", metavar="DIR", required=True, exists=True
    )
    key: str = option(
        "", "Private key that signs (PEM, Ed25519).", metavar="FILE", required=True, exists=True
    )
    model_version: int = option(
        0, "Version of the model: a device takes none that is not newer.", metavar="N", required=True
    )
    cases: str | None = _input_option(
        None,
        "npz file with inputs of self-test cases by name, and expected outputs by name or number. Without "
        "outputs the model says them on this machine. Default: a repeatable pattern.",
        metavar="FILE",
        exists=True,
    )
    case_count: int = _input_option(
        2, "The first cases of the file to put into the package.", metavar="N", check=between(1, 1000)
    )
    revoke: tuple[str, ...] = option(
        (),
        "Public key that is not trusted any more once the package is in force; may repeat. Later packages "
        "must name it as well.",
        metavar="FILE",
        exists=True,
    )
