# SPDX-License-Identifier: Apache-2.0
"""Options of a generated project."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from mlf_sdk.errors import InputError

App = Literal["rpc", "standalone", "mlperf", "library"]
ParamsPlace = Literal["flash", "ram"]
Executor = Literal["static", "graph"]
Plan = Literal["shared", "none"]
LEAST_STACK_BYTES = 512

# No contraction to fused multiply-adds: kernels then compute the same floats on every machine, but for libm.
DEFAULT_KERNEL_FLAGS = ("-O2", "-ffp-contract=off")
# Kernels read words of bytes, and plans put other values into memory that was read from: accesses of other
# types must keep their order, whatever the user chose.
NEEDED_FLAGS = ("-fno-strict-aliasing",)
# Those of the runtime, and of kernels that the SDK's own compiler writes. Projects show them; they are errors
# with MLF_WERROR alone: a compiler that nobody here knows may warn of code that is right, and a user's build
# must not end for that.
WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wcast-qual",
    "-Wundef",
    "-Wshadow",
    "-Wmissing-prototypes",
)
# Code of other generators warns a lot, and newer compilers refuse its pointers; but a function without a
# declaration would be called as one that returns an int.
QUIET_C_FLAGS = (
    "-Wno-error",
    "-Wno-all",
    "-Wno-extra",
    "-Wno-attributes",
    "-Wno-incompatible-pointer-types",
    "-Wno-int-conversion",
    "-Werror=implicit-function-declaration",
)
MOST_TRUSTED = 16
MONOCYPHER_SOURCES = ("src/monocypher.c", "src/optional/monocypher-ed25519.c")
# GCC's options for them, beside -Os: up to 7 % less code, in no more time.
MONOCYPHER_FLAGS = (
    "-fwhole-program",
    "-fno-tree-coalesce-vars",
    "-fno-inline-small-functions",
    "-fno-schedule-insns2",
    "-fno-tree-reassoc",
    "-fno-caller-saves",
)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_FLAG = re.compile(r"-[A-Za-z0-9_=.,+:/@%-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectOptions:
    """Options of a project: with the archives and the board, all that decides its files.

    Attributes:
        app: ``rpc`` serves the models over the UART; ``standalone`` runs them once on a sample;
            ``mlperf`` serves one to a runner of MLPerf Tiny; ``library`` is for an application that exists.
        params: memory of the parameters while the model runs.
        kernel_flags: compiler flags of the archive's code.
        keep_inputs: a run leaves the inputs intact.
        share_arena: several models use one arena; they never run at once.
        trace: the workspace allocator records its high-water mark (default: with ``rpc``).
        cmsis_nn: absolute path of a CMSIS-NN checkout, for archives that need it.
        cmsis_nn_module: the checkout is Zephyr's own module, which its build then compiles.
        executor: ``static`` calls kernels from constant tables; ``graph`` loads a graph blob and
            parameters that can be replaced.
        plan: ``shared``: buffers share an arena by lifetime; ``none``: each has memory of its own, and steps
            run in the archive's order.
        mlperf_id: id of the benchmark that the application ``mlperf`` answers with.
        softmax: its results are the softmax of the outputs (for an id that is no benchmark's).
        toolchain: name of what compiles the project for its board.
        trust: public keys (Ed25519, as hex) whose packages replace parameters; none: who has the wire does.
        session_keys: public keys (Ed25519, as hex) that open sessions; none: who has the wire does.
        monocypher: absolute path of a Monocypher release; None: OpenSSL, on the host.
        model_version: version of the parameters in the image: packages must be newer.
        place: memories that the user chose, as of `mlf_sdk.planner.memories.parse_pins`; empty: those of the
            board that are used without being asked.
        stack_bytes: reserved for the stack; 0: as the board's row says.
        as_compiled: the entry of an ahead-of-time model stays one step, with the memory that its compiler
            gave it.
    """

    app: App = "rpc"
    params: ParamsPlace = "flash"
    kernel_flags: tuple[str, ...] = DEFAULT_KERNEL_FLAGS
    keep_inputs: bool = False
    share_arena: bool = False
    trace: bool | None = None
    cmsis_nn: str | None = None
    cmsis_nn_module: bool = False
    executor: Executor = "static"
    plan: Plan = "shared"
    mlperf_id: str = ""
    softmax: bool = False
    as_compiled: bool = False
    toolchain: str = "gcc"
    trust: tuple[str, ...] = ()
    session_keys: tuple[str, ...] = ()
    monocypher: str | None = None
    model_version: int = 0
    place: tuple[str, ...] = ()
    stack_bytes: int = 0

    def __post_init__(self) -> None:
        for name, known in (("app", App), ("params", ParamsPlace), ("executor", Executor), ("plan", Plan)):
            value = getattr(self, name)
            if value not in get_args(known):
                raise InputError(
                    f"invalid value {value!r}: must be one of {', '.join(get_args(known))}",
                    where=f"ProjectOptions.{name}",
                )
        if self.plan == "none" and (self.share_arena or self.executor == "graph"):
            other = "--share-arena" if self.share_arena else "--executor graph"
            raise InputError(
                f"{other} needs the shared plan", where="--plan none", hint=f"Leave out {other} or --plan."
            )
        if self.place:
            self._check_place()
        if self.stack_bytes and (self.stack_bytes < LEAST_STACK_BYTES or self.stack_bytes % 8):
            raise InputError(
                f"a stack of {self.stack_bytes:,} bytes",
                where="--stack",
                hint=f"Give a multiple of 8 from {LEAST_STACK_BYTES} on, such as 1K.",
            )
        self._check_mlperf()
        self._check_trust()
        for flag in self.kernel_flags:
            if not _FLAG.fullmatch(flag):
                raise InputError(
                    f"invalid compiler flag {flag!r}",
                    where="--cflags",
                    hint="Give flags that start with '-', without spaces or quotes inside a flag.",
                )

    def stack_of(self, row_bytes: int) -> int:
        """Bytes reserved for the stack on a board whose row says so many."""
        return self.stack_bytes or row_bytes

    @property
    def can_place(self) -> bool:
        """True when nothing else decides where buffers or weights lie."""
        return not self._deciding()

    def _deciding(self) -> list[str]:
        others = {
            "--plan none": self.plan == "none",
            "--share-arena": self.share_arena,
            "--executor graph": self.executor == "graph",
            "--params ram": self.params == "ram",
        }
        return [name for name, given in others.items() if given]

    def _check_place(self) -> None:
        for other in self._deciding():
            raise InputError(
                f"{other} decides where buffers or weights lie itself",
                where="--place",
                hint=f"Leave out {other} or --place.",
            )

    def _check_trust(self) -> None:
        if not self.trust and self.model_version:
            flag = "--model-version"
            raise InputError(
                f"{flag} is for firmware that takes signed packages", where=flag, hint="Add --trust."
            )
        if self.monocypher is not None and not self.trust and not self.session_keys:
            raise InputError(
                "--monocypher is for firmware that takes signed packages or secured sessions",
                where="--monocypher",
                hint="Add --trust or --lock.",
            )
        if self.session_keys and self.app != "rpc":
            raise InputError(
                f"the application {self.app} has no sessions to lock",
                where="--lock",
                hint="Leave it out, or generate with --app rpc.",
            )
        if len(self.session_keys) > MOST_TRUSTED:
            raise InputError(f"an image trusts at most {MOST_TRUSTED} keys", where="--lock")
        if self.trust and self.executor != "graph":
            raise InputError(
                "packages replace the parameters of the dynamic executor",
                where="--trust",
                hint="Add --executor graph.",
            )
        if len(self.trust) > MOST_TRUSTED:
            raise InputError(f"an image trusts at most {MOST_TRUSTED} keys", where="--trust")
        if not 0 <= self.model_version <= 0xFFFFFFFF:
            raise InputError("invalid value: must be 0 to 4294967295", where="--model-version")

    def _check_mlperf(self) -> None:
        if self.app != "mlperf" and (self.mlperf_id or self.softmax):
            flag = "--id" if self.mlperf_id else "--softmax"
            raise InputError(f"{flag} is for the mlperf application", where=flag, hint="Add --app mlperf.")
        if self.app == "mlperf" and not _ID.fullmatch(self.mlperf_id):
            raise InputError(
                f"invalid value {self.mlperf_id!r}" if self.mlperf_id else "no benchmark was named",
                where="--id",
                hint="Give ic01, kws01, vww01, ad01, or an id of your own: letters, digits, _, - and .",
            )

    @property
    def guards(self) -> bool:
        """True when guard bytes around the models' memory are compiled in: the RPC server checks them."""
        return self.executor == "static" and self.app == "rpc"

    @property
    def holds_inputs(self) -> bool:
        """True when the application has a buffer for inputs that do not lie in the arena."""
        return self.app in ("rpc", "mlperf")

    @property
    def traces(self) -> bool:
        """True when the workspace trace is compiled in."""
        return self.app == "rpc" if self.trace is None else self.trace


def parse_kernel_flags(text: str | None) -> tuple[str, ...]:
    """Flags in the value of ``--cflags``; None: the default ones."""
    return DEFAULT_KERNEL_FLAGS if text is None else tuple(text.split())
