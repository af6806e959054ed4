# SPDX-License-Identifier: Apache-2.0
"""Requests: all options of the pipeline, declared once.

Each field of `Request` carries its help text, its group and the stage that reads it. The command line, the
keyword arguments of the Python functions, the options of the pytest plugin and ``mlf.toml`` all derive from
these fields, so that an option that a stage has, every command that runs the stage has.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from mlf_sdk.pipeline.compileroptions import SigningRequest
from mlf_sdk.pipeline.declare import (
    Stage,
    c_identifier,
    check_names,
    defaults_after,
    not_negative,
    option,
    positive,
    zephyr_definitions,
)

HOST = "host"
NO_PORT: dict[str, Any] = {"port": None, "baud": None, "max_baud": None, "image": None}
PLATFORMS = ("baremetal", "host", "zephyr")
TOOLCHAINS = ("gcc", "clang", "zig")
_PORT_HELP = (
    "Board that runs the image already: path, socket://HOST:PORT, rfc2217://HOST:PORT, "
    "usb:VID:PID[:SERIAL], or auto (by the board's USB ids); through MCUmgr's SMP: smp:PORT, smp:udp:HOST."
)


_target_option = partial(option, group="Target", stage=Stage.PLAN)
_project_option = partial(option, group="Build", stage=Stage.PLAN, fixed=True)
_project_path = partial(_project_option, None, is_path=True, exists=True)
_zephyr_option = partial(option, group="Zephyr", stage=Stage.PLAN)
_serial_option = partial(option, group="Serial", stage=Stage.OPEN)
_judge_option = partial(option, group="Inputs", stage=Stage.JUDGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(SigningRequest):
    """One job for the pipeline: sources, target, and references to compare with.

    Frozen and serialisable (pickle; JSON through `mlf_sdk.tools.serial`). Paths are strings; arrays may be
    given in place of npz files.

    Attributes:
        source: paths of archives, or the folder of one generated project.
    """

    source: tuple[str, ...] = option((), "Archives, or the folder of a generated project.", hidden=True)

    # ---- plan: the target ----
    board: str | None = _target_option(
        None,
        "Board (see: mlf-sdk boards), or labgrid:PLACE. A project knows its board; else mps2-an386.",
        flags=("--board", "-b"),
        metavar="NAME",
        complete="board",
    )
    board_file: str | None = _target_option(
        None, "TOML file with a board row of your own.", metavar="FILE", is_path=True, fixed=True, exists=True
    )
    platform: str | None = _target_option(
        None,
        "Platform to build for; default: that of the board's row. zephyr: any board that Zephyr knows.",
        choices=PLATFORMS,
        fixed=True,
    )

    toolchain: str | None = _project_option(
        None,
        "Compiler of the board's code; default: gcc, or, where that is not installed, zig (pip install "
        "'mlf-sdk[zig]').",
        choices=TOOLCHAINS,
    )

    # ---- plan and render: the project ----
    app: str = _project_option(
        "rpc",
        "rpc: serve the model over the UART; standalone: run once on a sample; mlperf: serve it to a runner "
        "of MLPerf Tiny (--id); library: runtime and models for an existing application.",
        choices=("rpc", "standalone", "mlperf", "library"),
    )
    model_name: str | None = _project_option(
        None,
        "Name of the model in C, in place of its file's: it stays when a retrained model has another file.",
        flags=("--name",),
        metavar="NAME",
        check=c_identifier,
    )
    mlperf_id: str = _project_option(
        "",
        "Benchmark of the mlperf application: ic01, kws01, vww01, ad01, or an id of your own, whose inputs "
        "are sent as the model's bytes.",
        flags=("--id",),
        metavar="ID",
    )
    softmax: bool = _project_option(
        False, "Results of an own --id are the softmax of the outputs: for a model that gives logits."
    )
    executor: str = _project_option(
        "static",
        "static: kernels are called from constant tables; graph: graph and parameters are loaded on the "
        "device, and parameters can be replaced (mlf-sdk params).",
        choices=("static", "graph"),
    )
    params: str = _project_option(
        "flash", "Memory in which parameters lie while the model runs.", choices=("flash", "ram")
    )
    cflags: str | None = _project_option(
        None,
        "Compiler flags of the archive's code, as --cflags=-Os, in place of '-O2 -ffp-contract=off'.",
        metavar="FLAGS",
    )
    keep_inputs: bool = _project_option(False, "A run leaves the inputs intact (a larger arena).")
    share_arena: bool = _project_option(False, "Several models use one arena, never at once.")
    plan: str = _project_option(
        "shared",
        "shared: tensors and workspaces share an arena by lifetime; none: each has memory of its own, and "
        "steps run in the archive's order.",
        choices=("shared", "none"),
    )
    place: tuple[str, ...] = _project_option(
        (),
        "Memories of the board: auto (tensors and weights lie where their traffic costs least), and "
        "weights=MEMORY, arena=MEMORY, state=MEMORY, NAME=MEMORY. Default: the first RAM and flash, and "
        "others where those are too small.",
        metavar="WHAT=MEMORY",
    )
    stack: str | None = _project_option(
        None,
        "Bytes reserved for the stack, as 1K or 832, in place of the board's: the check proves whether the "
        "bound of the image's stack is within them.",
        metavar="SIZE",
    )
    as_compiled: bool = _project_option(
        False, "Keep an ahead-of-time entry, and its memory, as it was compiled."
    )
    cmsis_nn: str | None = _project_path("CMSIS-NN checkout, for code that needs it.", metavar="PATH")
    trace: bool | None = _project_option(
        None, "Record the high-water mark of workspaces; default: in the rpc application.", hidden=True
    )

    # ---- build ----
    build_timeout_s: float = option(
        600.0, "Seconds for the build.", group="Build", stage=Stage.BUILD, check=positive, metavar="SECONDS"
    )
    sign: str | None = option(
        None,
        "Sign a Zephyr image for MCUboot with the key in this file (imgtool).",
        group="Zephyr",
        stage=Stage.BUILD,
        metavar="KEY",
        is_path=True,
    )
    zephyr_base: str | None = _zephyr_option(
        None,
        "Zephyr tree; default: $ZEPHYR_BASE, that of the west workspace, or ~/zephyrproject/zephyr.",
        metavar="DIR",
        is_path=True,
    )
    zephyr_modules: tuple[str, ...] = _zephyr_option(
        (),
        "Zephyr module that a build without west needs; may repeat; the project remembers it.",
        flags=("--zephyr-module",),
        metavar="DIR",
        is_path=True,
    )
    west: bool | None = _zephyr_option(
        None, "Build Zephyr projects with west (default: in a west workspace).", negative="--no-west"
    )
    build_dir: str | None = _zephyr_option(
        None,
        "Build folder of a Zephyr project; the project remembers it. Default: build, or where west put it.",
        metavar="DIR",
        is_path=True,
    )
    cmake_args: tuple[str, ...] = _zephyr_option(
        (),
        "Argument for CMake in a Zephyr build, such as -DEXTRA_CONF_FILE=debug.conf; may repeat, or put all "
        "of them behind --. The project remembers them; -UNAME drops one.",
        flags=("--cmake-arg",),
        metavar="ARG",
        check=zephyr_definitions,
    )

    # ---- open ----
    port: str | None = _serial_option(None, _PORT_HELP, metavar="PORT", complete="port")
    image: str | None = _serial_option(
        None,
        "Image that the board on the port must run: an ELF file, or a built project. Default: that of DIR.",
        metavar="ELF|DIR",
        is_path=True,
        exists=True,
    )
    baud: int | None = _serial_option(
        None, "Bits a second that the board starts with; default: of its row.", metavar="N", check=positive
    )
    max_baud: int | None = _serial_option(
        None,
        "Raise the rate to this when both ends can; default: of the board's row; 0: never.",
        metavar="N",
        check=not_negative,
    )
    timeout_s: float = option(
        120.0,
        "Seconds for starting the target, and for each inference with its transfers.",
        group="Target",
        stage=Stage.OPEN,
        check=positive,
        metavar="SECONDS",
    )

    chip: str | None = option(
        None,
        "Microcontroller (see: mlf-sdk chips) to estimate the time of an inference on. Default: that of the "
        "board's row.",
        group="Target",
        stage=Stage.JUDGE,
        metavar="NAME",
    )

    # ---- execute ----
    inputs: str | Mapping[str, Any] | None = option(
        None,
        "npz file: an array for each input, by its name; one extra leading axis is a batch. Default: a "
        "repeatable pattern.",
        group="Inputs",
        stage=Stage.EXECUTE,
        metavar="FILE",
        is_path=True,
    )

    # ---- judge ----
    expect: str | Mapping[str, Any] | None = _judge_option(
        None,
        "npz file: expected outputs by name or number; 'label' holds classes.",
        metavar="FILE",
        is_path=True,
    )
    rtol: float = _judge_option(
        1e-5,
        "Tolerance for floats, relative to the output's largest magnitude.",
        check=not_negative,
        metavar="X",
    )
    atol: float = _judge_option(
        1e-6, "Absolute tolerance; from 1 on also for integers.", check=not_negative, metavar="X"
    )
    twin: bool | None = _judge_option(
        None,
        "Compare with the host twin as well (default: where --expect gives no outputs).",
        negative="--no-twin",
    )
    archive: str | None = _judge_option(
        None,
        "Archive that DIR was made from, for the host twin; default: looked for here and beside DIR.",
        metavar="FILE",
        is_path=True,
        exists=True,
    )
    model_file: str | None = _judge_option(
        None,
        "Model file that the archive or project was compiled from, for its witnesses; default: looked for "
        "beside it and here.",
        flags=("--model",),
        metavar="FILE",
        is_path=True,
        exists=True,
    )
    witness_s: float = _judge_option(
        10.0,
        "Seconds for each witness of the model file; at least one inference is compared.",
        check=not_negative,
        metavar="SECONDS",
    )
    strict: bool | None = option(
        None,
        "Fail on what nothing proves, such as a stack without a bound (default in proof and test).",
        group="Target",
        stage=Stage.JUDGE,
        negative="--no-strict",
    )

    def replace(self, **changes: Any) -> Request:  # noqa: ANN401
        """Copy with some fields replaced.

        Raises:
            InputError: an unknown option, or an invalid value.
        """
        check_names(changes, Request, "option")
        return dataclasses.replace(self, **changes)

    def to_json(self) -> bytes:
        """Encode as JSON; arrays keep their type and shape."""
        from mlf_sdk.tools.serial import encode

        return encode(self)

    @classmethod
    def from_json(cls, data: bytes) -> Request:
        """Decode a request encoded by `to_json`.

        Raises:
            msgspec.ValidationError: the data is not a request.
        """
        from mlf_sdk.tools.serial import as_array, decode

        result = decode(data, cls)
        arrays = {
            name: {key: as_array(value) for key, value in given.items()}
            for name in ("inputs", "expect")
            if isinstance(given := getattr(result, name), Mapping)
        }
        return result.replace(**arrays)

    def up_to(self, stage: Stage) -> Request:
        """Copy with the options of later stages at their defaults: the key of a stage's result."""
        return dataclasses.replace(self, **defaults_after(stage, Request))
