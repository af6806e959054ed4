# SPDX-License-Identifier: Apache-2.0
"""Generated preprocessing as a program of this machine: raw bytes in, the model's input out; with sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from mlf_sdk.compiler.preprocess.plan import files_of, plan_of, raw_of
from mlf_sdk.compiler.preprocess.section import section_of
from mlf_sdk.ir.tensor import InputFacts, Preprocessing

Array = np.ndarray[Any, np.dtype[Any]]
C_TYPES = {"int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "float32": "float"}
WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wcast-qual",
    "-Wundef",
    "-Wshadow",
    "-Wmissing-prototypes",
    "-Werror",
)
MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include "net_preprocess.h"
int main(void) {{
  for (;;) {{
    {raw} *raw = malloc({raw_bytes}); /* an object of exactly this size: the sanitizer sees what is read behind it */
    {stored} *input = malloc({elements} * sizeof *input);
    if (fread(raw, 1, {raw_bytes}, stdin) != {raw_bytes}) {{ free(raw); free(input); return 0; }}
    net_preprocess(raw, input);
    fwrite(input, sizeof *input, {elements}, stdout);
    free(raw);
    free(input);
  }}
}}
"""


def preprocessing(
    pre: dict[str, Any], shape: tuple[int, ...], dtype: str = "int8", **facts: Any
) -> Preprocessing:
    """A section for an input; scale 1/255 and zero point -128 where nothing is stated."""
    if dtype != "float32":
        facts = {"scale": 1 / 255, "zero_point": -128, **facts}
    return Preprocessing(
        section=section_of(pre), input=0, facts=InputFacts(shape=shape, dtype=dtype, **facts), is_step=False
    )


def program(folder: Path, of: Preprocessing) -> Path:
    """The program; it takes any number of frames, one behind the other."""
    files = files_of("net", of)
    raw = raw_of(plan_of(of))
    for name, text in [
        files.header,
        *files.headers.items(),
        *((n, s.text) for n, s in files.sources.items()),
    ]:
        (folder / name).write_text(text)
    main = MAIN.format(
        raw=f"{raw.dtype}_t",
        raw_bytes=int(np.prod(raw.shape)) * np.dtype(raw.dtype).itemsize,
        stored=C_TYPES[of.facts.dtype],
        elements=int(np.prod(of.facts.shape)),
    )
    (folder / "main.c").write_text(main)
    sources = ["main.c", *files.sources]
    flags = (
        "-std=c99",
        "-O1",
        "-ffp-contract=off",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    )
    defined = ("-fno-strict-aliasing",)
    subprocess.run(
        ["cc", *flags, *WARNINGS, *defined, *sources, "-lm", "-o", "program"],
        cwd=folder,
        check=True,
        timeout=120,
    )
    return folder / "program"


def computed(path: Path, of: Preprocessing, raw: Array) -> Array:
    """Inputs that the program computes for a batch."""
    done = subprocess.run([path], input=raw.tobytes(), capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, of.facts.dtype).reshape(len(raw), *of.facts.shape)
