# SPDX-License-Identifier: Apache-2.0
"""Commands about signed packages of a model's parameters."""

from __future__ import annotations

from dataclasses import dataclass

from mlf_sdk.cli.command import Command, Outcome
from mlf_sdk.cli.devices import ParamsOptions
from mlf_sdk.pipeline.declare import Options, option
from mlf_sdk.pipeline.packageoptions import PackageOptions
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.pipeline.request import Request


def make(request: Request, own: PackageOptions, progress: Progress) -> Outcome:
    """Sign the parameters of a model for the firmware of a project, with self-test cases.

    Example: mlf-sdk package make new.tar --project app --key release.key --model-version 2 -o new.mlfp
    """
    from mlf_sdk.pipeline.package import make_package
    from mlf_sdk.reporting.package import made_parts, made_values

    made = make_package(request, own, progress)
    return Outcome(parts=made_parts(made), values=made_values(made))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions(Options):
    """Options of ``package verify``."""

    trust: str = option(
        "", "File with the trusted public keys (PEM).", metavar="FILE", required=True, exists=True
    )


def verify(request: Request, own: VerifyOptions, progress: Progress) -> Outcome:
    """Check the hashes of a package, and that a trusted key signed it.

    Example: mlf-sdk package verify retrained.mlfp --trust trusted.pem
    """
    from mlf_sdk.pipeline.package import verify_package
    from mlf_sdk.reporting.package import verified_parts, verified_values

    result = verify_package(request.source[0], own.trust)
    return Outcome(parts=verified_parts(result), values=verified_values(result))


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOptions(ParamsOptions):
    """Options of ``package push``."""

    base: tuple[str, ...] = option(
        (),
        "Package that the device may have: what is the same in it is not sent. Those beside the new one, and "
        "the parameters of the project's image, are looked at anyway; may repeat.",
        metavar="FILE",
        exists=True,
    )


def push(request: Request, own: PushOptions, progress: Progress) -> Outcome:
    """Send a package: the device verifies it, runs its self-test cases, and only then changes over.

    A transfer that was cut goes on where it ended, unless the device was reset. Only what the device does not
    have is sent, as far as its version is known here.

    Example: mlf-sdk package push retrained.mlfp --port /dev/ttyACM0

    Example: mlf-sdk package push retrained.mlfp --project app
    """
    from mlf_sdk.pipeline.package import push_package
    from mlf_sdk.reporting.package import pushed_parts, pushed_values

    target = request.replace(source=(own.project,) if own.project else ())
    pushed = push_package(request.source[0], target, own.base, progress)
    return Outcome(parts=pushed_parts(pushed), values=pushed_values(pushed))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysOptions(Options):
    """Options of ``package keys``."""

    trust: str | None = option(
        None, "List of trusted public keys to add the new one to; made where there is none.", metavar="FILE"
    )
    drop: tuple[str, ...] = option(
        (), "Public key to leave out of the list from now on; may repeat.", metavar="FILE", exists=True
    )


def keys(request: Request, own: KeysOptions, progress: Progress) -> Outcome:
    """Make a key pair, NAME.key and NAME.pub; change over to it in a list of trusted keys.

    Images hold the list (mlf-sdk generate --trust); a device in the field learns of a revocation by a package
    (mlf-sdk package --revoke). The private key is not encrypted: keep it where nobody else reads it.

    Example: mlf-sdk package keys release-2027 --trust trusted.pem --drop release-2026.pub
    """
    from mlf_sdk.pipeline.package import make_keys
    from mlf_sdk.reporting.layout import line

    private, public, count = make_keys(request.source[0], own.trust, own.drop)
    parts = [line("private", str(private)), line("public", str(public))]
    if own.trust is not None:
        parts.append(line("trusted", f"{own.trust}: {count} key{'s' if count != 1 else ''}"))
    values = {"private": str(private), "public": str(public), "trusted": count if own.trust else None}
    return Outcome(parts=parts, values=values)


_PUSH = ("module", "board", "port", "image", "key", "baud", "max_baud", "timeout_s", "build_timeout_s")

COMMANDS = {
    "package make": Command(
        call=make,
        source="PARAMS|MODEL|ARCHIVE",
        source_help="A .params file, or a retrained model or archive with the same kernels.",
        takes=("module", "cmsis_nn", "rtol", "atol", "build_timeout_s", "timeout_s"),
        own=PackageOptions,
    ),
    "package verify": Command(
        call=verify, source="PACKAGE", source_help="Signed package.", own=VerifyOptions
    ),
    "package push": Command(
        call=push,
        source="PACKAGE",
        source_help="Signed package.",
        takes=_PUSH,
        own=PushOptions,
        defaults={"timeout_s": 60.0},
    ),
    "package keys": Command(
        call=keys, source="NAME", source_help="Both files' name, without the ending.", own=KeysOptions
    ),
}
