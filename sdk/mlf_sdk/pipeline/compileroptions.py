# SPDX-License-Identifier: Apache-2.0
"""Parts of every request: options of stage load, with those of the compiler, and of keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from mlf_sdk.compiler.options import ASMS, GOALS, IOS, KERNELS, Asm, Goal, Io, Kernels, core_names
from mlf_sdk.pipeline.declare import COMPILER, Options, Stage, option, positive, stated

_compiler_option = partial(option, group=COMPILER, stage=Stage.LOAD, fixed=True)
_project_option = partial(option, group="Build", stage=Stage.PLAN, fixed=True)
_project_path = partial(_project_option, None, is_path=True, exists=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerRequest(Options):
    """Options of the compiler; names and meaning as in `CompileOptions`."""

    core: str | None = _compiler_option(
        None,
        "Processor that a model is compiled for; default: the board's. Every archive runs on any.",
        choices=core_names(),
    )
    goal: str = _compiler_option(
        Goal.BALANCED.value,
        "Choose kernels of a model that is compiled for speed (the fewest cycles of the core), for the "
        "fewest instructions, for size, for RAM (layers hand rows on to each other), or for speed without "
        "much more flash.",
        flags=("--for",),
        choices=GOALS,
    )
    io: str = _compiler_option(
        Io.MODEL.value,
        "Inputs and outputs of a model that is compiled: as in the model, or the int8 values behind its "
        "QUANTIZE and before its DEQUANTIZE.",
        choices=IOS,
    )
    batch: int = _compiler_option(
        1, "Batch of a model that is compiled and leaves it open (-1).", metavar="N", check=positive
    )
    shape: tuple[str, ...] = _compiler_option(
        (),
        "Shape of an input that the model leaves open, such as input=1,3,32,32. May repeat.",
        metavar="NAME=N,N,...",
    )
    custom: tuple[str, ...] = _compiler_option(
        (),
        "C code of a custom operator of a .tflite model: the function NAME in FILE.c. May repeat.",
        metavar="NAME=FILE.c",
        is_path=True,
    )
    kernels: str = _compiler_option(
        Kernels.AUTO.value,
        "Kernels of an ONNX or PyTorch model that is compiled: TVM's where there are no own ones and TVM is "
        "installed; own ones alone; or TVM's alone.",
        choices=KERNELS,
    )
    asm: str = _compiler_option(
        Asm.INLINE.value,
        "Assembly in the kernels of a model that is compiled: inline, for GCC and clang, with C beside it; "
        "file: the same in a source of its own (.S); or no: C alone, for any compiler of C99.",
        choices=ASMS,
    )
    max_arena: str | None = _compiler_option(
        None,
        "Most bytes of the arena of a model that is compiled: 24K, 24KiB or bytes. Layers hand rows on to "
        "each other until it fits, no more of them than that needs.",
        metavar="SIZE",
    )
    stream: bool = _compiler_option(
        False,
        "Take the rows of the input of a model that is compiled one after the other, as a camera gives "
        "them: the input needs a ring of a few rows instead of a whole tensor.",
    )
    frames: bool = _compiler_option(
        False,
        "Take a time series of a model that is compiled frame by frame, and keep what its layers need of "
        "earlier ones: the outputs are those of the whole window that a frame ends.",
    )
    caller_inputs: bool = _compiler_option(
        False,
        "Read the inputs of a model that is compiled where the caller has them, in RAM or flash: the arena "
        "has no room for them, and a run leaves them as they are.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest(CompilerRequest):
    """Options of stage load: the model of a file, facts that it does not state, and those of the compiler."""

    module: str | None = option(
        None,
        "Module of an archive with several, function of an archive in operator style, or model of a project "
        "with several.",
        group="Target",
        stage=Stage.LOAD,
        metavar="NAME",
    )

    output_names: tuple[str, ...] = stated(
        "--output-name", "NAME", "Output, where the file does not state directions; the others are inputs."
    )
    tensor_types: tuple[str, ...] = stated(
        "--type",
        "NAME=TYPE",
        "Type and extents of a tensor, where the file does not state them: x=float32[1,8].",
    )
    quantisation: tuple[str, ...] = stated(
        "--quantisation",
        "NAME=SCALE,ZERO_POINT",
        "Quantisation of an input or output, where the file does not state it.",
    )
    params_files: tuple[str, ...] = stated(
        "--params-file", "FILE", "Parameters that the file lacks: .params, or .npz by name.", exists=True
    )
    more_sources: tuple[str, ...] = stated(
        "--source", "FILE", "C source, header or object with functions that the code lacks.", exists=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningRequest(LoadRequest):
    """Options of a request about keys and preprocessing, and those of stage load."""

    pre: str | None = _project_path(
        "TOML file with a section [pre]: from raw frames or sound to the input; default: that of mlf.toml.",
        metavar="FILE",
    )
    trust: str | None = _project_path("Public keys whose packages alone replace parameters.", metavar="FILE")
    lock: str | None = _project_path(
        "Public keys that alone open sessions: to others the device says its build id, and nothing else.",
        metavar="FILE",
    )
    monocypher: str | None = _project_path(
        "Monocypher release, to verify packages and sessions with.", metavar="PATH"
    )
    model_version: int = _project_option(
        0, "Version of the parameters in the image: packages must have a higher one.", metavar="N"
    )
    key: str | None = option(
        None,
        "Private key (PEM, Ed25519) that opens sessions with a device that was generated with --lock.",
        group="Target",
        stage=Stage.OPEN,
        metavar="FILE",
        is_path=True,
        exists=True,
    )
