# SPDX-License-Identifier: Apache-2.0
"""Figures of other runtimes, measured on the same emulated machine (mps2-an386, gcc 12.2, -O2, one
inference in the steady state), for comparison. They are constants: nothing here is run."""

from __future__ import annotations

from typing import Any

from mlf_sdk.compiler.options import Goal

SOURCES = {
    "tvm": "TVM 0.11.1's own runtime, on the same archives",
    "tflm": "TensorFlow Lite Micro, on the .tflite files of the same models",
}

# TVM's workspace with unified static memory planning, in bytes, inputs and outputs apart.
TVM_USMP_WORKSPACE = {"resnet8": 102_528, "kws": 56_192, "vww": 150_560, "ad": 165_408}
# TVM's dispatch for each step, and its stack allocator for each pair of calls, in instructions.
TVM_DISPATCH_STEP = (95, 124)
TVM_ALLOCATOR_PAIR = 70

# Goals of the compiler, in instructions by core and goal; shares are of TFLM with CMSIS-NN.
LIMITS: dict[tuple[str, Goal], dict[str, float]] = {
    ("cortex-m4", Goal.INSTRUCTIONS): {"resnet8": 7.5e6, "kws": 2.3e6, "vww": 4.8e6, "ad": 290e3},
    ("cortex-m4", Goal.BALANCED): {"resnet8": 10.5e6, "kws": 2.45e6, "vww": 4.9e6, "ad": 310e3},
    ("cortex-m3", Goal.BALANCED): {
        "resnet8": 41_848_370 * 0.5,
        "kws": 10_531_595 * 0.5,
        "vww": 31_959_112 * 0.5,
        "ad": 955_982 * 0.5,
    },
    ("cortex-m0", Goal.BALANCED): {
        "resnet8": 97_560_912 * 0.5,
        "kws": 28_993_366 * 0.5,
        "vww": 86_903_616 * 0.5,
        "ad": 1_763_192 * 0.5,
    },
    ("cortex-m55", Goal.BALANCED): {"resnet8": 1.7e6, "kws": 600e3, "vww": 1.3e6, "ad": 44e3},
    ("rv32imac", Goal.BALANCED): {"resnet8": 38e6, "kws": 8.5e6, "vww": 15e6, "ad": 900e3},
    ("rv32imac", Goal.SPEED): {"resnet8": 27e6, "kws": 8e6, "vww": 14e6, "ad": 850e3},
    ("rv32imac_zve32x", Goal.BALANCED): {"resnet8": 4.5e6, "kws": 1.2e6, "vww": 2.6e6, "ad": 120e3},
}

PEERS: dict[str, dict[str, Any]] = {
    "resnet8": {
        "tvm graph executor": {
            "instructions": 88_857_062,
            "dispatch": 1_771,
            "allocator": 27_208,
            "init": 3_130_000,
            "heap_bytes": 601_792,
        },
        "tvm aot": {"instructions": 88_604_608, "workspace_bytes": 119_104},
        "tvm aot usmp": {"instructions": 88_712_271, "workspace_bytes": 102_528},
        "tflm reference": {"instructions": 107_404_090, "arena_bytes": 54_352, "flash_bytes": 44_916},
        "tflm cmsis-nn": {"instructions": 29_860_770, "arena_bytes": 54_352, "flash_bytes": 50_380},
        "tflm": {"init": 523_810},
    },
    "kws": {
        "tvm graph executor": {
            "instructions": 22_033_272,
            "dispatch": 1_642,
            "allocator": 40_903,
            "init": 2_590_000,
            "heap_bytes": 445_568,
        },
        "tvm aot": {"instructions": 21_961_189, "workspace_bytes": 105_360},
        "tvm aot usmp": {"instructions": 22_064_532, "workspace_bytes": 56_192},
        "tflm reference": {"instructions": 43_039_197, "arena_bytes": 22_784, "flash_bytes": 40_472},
        "tflm cmsis-nn": {"instructions": 7_697_765, "arena_bytes": 22_784, "flash_bytes": 52_576},
        "tflm": {"init": 783_581},
    },
    "vww": {
        "tvm graph executor": {
            "instructions": 64_616_309,
            "dispatch": 3_955,
            "allocator": 284_036,
            "init": 9_610_000,
            "heap_bytes": 1_602_112,
        },
        "tvm aot": {"instructions": 63_444_560, "workspace_bytes": 248_848},
        "tvm aot usmp": {"instructions": 64_092_732, "workspace_bytes": 150_560},
        "tflm reference": {"instructions": 100_218_375, "arena_bytes": 100_672, "flash_bytes": 40_472},
        "tflm cmsis-nn": {"instructions": 24_101_548, "arena_bytes": 100_672, "flash_bytes": 52_576},
        "tflm": {"init": 3_509_591},
    },
    "ad": {
        "tvm graph executor": {
            "instructions": 3_473_634,
            "dispatch": 1_903,
            "allocator": 67_114,
            "init": 2_860_000,
            "heap_bytes": 1_073_024,
        },
        "tvm aot": {"instructions": 3_447_083, "workspace_bytes": 165_264},
        "tvm aot usmp": {"instructions": 3_441_192, "workspace_bytes": 165_408},
        "tflm reference": {"instructions": 1_952_258, "arena_bytes": 2_704, "flash_bytes": 19_416},
        "tflm cmsis-nn": {"instructions": 582_880, "arena_bytes": 2_704, "flash_bytes": 27_224},
        "tflm": {"init": 82_026},
    },
}
