# SPDX-License-Identifier: Apache-2.0
"""The builder of test archives: what it builds loads, computes, and is the same every time."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

import archives
from mlf_sdk.frontends.intake.members import read_archive
from mlf_sdk.frontends.mlf.archive import load_mlf

CRT = Path(__file__).resolve().parents[2] / "crt" / "include"

SPECS = [
    *(archives.Spec(version=version) for version in range(1, 8)),
    archives.Spec(dtype="int8"),
    archives.Spec(nop=True),
    archives.Spec(version=5, dtype="int8", nop=True),
    archives.Spec(kind="aot-c"),
    archives.Spec(kind="aot-c", version=5, dtype="int8"),
    archives.Spec(kind="aot-packed"),
    archives.Spec(kind="aot-packed", version=5, dtype="int8"),
    archives.Spec(kind="operator"),
    archives.Spec(kind="operator", version=5, dtype="int8"),
]

# A stack allocator and a way to call a packed function with plain pointers, for the test only.
HARNESS = """
#include <stdlib.h>
#include "tvm/runtime/c_runtime_api.h"
#include "tvm/runtime/c_backend_api.h"
int balance = 0;
void* TVMBackendAllocWorkspace(int type, int id, uint64_t size, int code, int bits) { ++balance; return malloc(size); }
int TVMBackendFreeWorkspace(int type, int id, void* p) { --balance; free(p); return 0; }
typedef int32_t (*packed)(void*, int32_t*, int32_t, void*, int32_t*, void*);
int32_t call_packed(packed f, void* const* data, int32_t n) {
  int64_t shape[2] = {1, 8}; DLTensor t[4]; TVMValue v[4]; int32_t code[4]; TVMValue r; int32_t rc;
  for (int32_t i = 0; i < n; ++i) {
    t[i] = (DLTensor){0}; t[i].data = data[i]; t[i].shape = shape; t[i].ndim = 2; t[i].device.device_type = kDLCPU;
    v[i].v_handle = &t[i]; code[i] = 7;
  }
  return f(v, code, n, &r, &rc, NULL);
}
"""


def compiled(spec: archives.Spec, folder: Path) -> ctypes.CDLL:
    """All code but the registry of TVM's own runtime, as a shared library of the host."""
    files = archives.write(archives.build(spec), folder / "model")
    (folder / "harness.c").write_text(HARNESS)
    sources = sorted(str(path) for path in (files / "codegen/host/src").iterdir())
    if spec.kind in ("graph", "operator"):
        sources = [path for path in sources if "lib0" not in path]
    command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror=implicit-function-declaration"]
    command += [f"-I{CRT}", f"-I{files}/codegen/host/include", "-o", str(folder / "model.so")]
    subprocess.run([*command, str(folder / "harness.c"), *sources], check=True, timeout=60)
    return ctypes.CDLL(str(folder / "model.so"))


def run(spec: archives.Spec, library: ctypes.CDLL) -> np.ndarray:
    x = archives.sample(spec)
    y = np.zeros(8, x.dtype)

    def packed(name: str, *arrays: np.ndarray) -> None:
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        assert library.call_packed(getattr(library, name), pointers, len(arrays)) == 0

    if spec.kind == "operator":
        packed("scale", x, y)
    elif spec.kind == "aot-packed":
        packed(f"{spec.prefix}run", x, y)
    elif spec.kind == "aot-c":
        inputs, outputs = (ctypes.c_void_p * 1)(x.ctypes.data), (ctypes.c_void_p * 1)(y.ctypes.data)
        assert library[f"{spec.prefix}run"](inputs, outputs) == 0
    else:
        p = archives.parameters(spec)
        t0, t1 = np.zeros(8, x.dtype), np.zeros(8, x.dtype)
        packed(f"{spec.prefix}fused_multiply", x, p["p0"], t0)
        packed(f"{spec.prefix}fused_smooth", t0, t1)
        packed(f"{spec.prefix}fused_add_relu", t1, p["p1"], y)
    assert ctypes.c_int.in_dll(library, "balance").value == 0
    return y.reshape(spec.output_shape)


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"v{s.version}-{s.kind}-{s.dtype}{'-nop' * s.nop}")
def test_every_archive_loads(spec: archives.Spec, tmp_path: Path) -> None:
    archive = load_mlf(archives.write(archives.build(spec), tmp_path / "a.tar"))
    (module,) = archive.modules
    assert (archive.version, module.metadata.name) == (spec.version, "tiny")
    assert (module.graph is not None) == (spec.kind == "graph")
    assert (module.interface is not None) == (spec.kind == "aot-c")


@pytest.mark.toolchain
@pytest.mark.parametrize(
    "spec",
    [
        archives.Spec(version=version, kind=kind, dtype=dtype)
        for kind in archives.KINDS
        for version, dtype in ((5, "int8"), (7, "float32"))
    ],
    ids=lambda s: f"v{s.version}-{s.kind}-{s.dtype}",
)
def test_the_code_computes_the_reference(spec: archives.Spec, tmp_path: Path) -> None:
    y = run(spec, compiled(spec, tmp_path))
    expected = archives.reference(spec, archives.sample(spec))
    np.testing.assert_array_equal(y.ravel(), expected.ravel())
    assert np.count_nonzero(expected) > 3


def test_containers_hold_the_same_files(tmp_path: Path) -> None:
    files = archives.build(nop=True)
    read = {
        name: read_archive(archives.write(files, tmp_path / name))
        for name in ("a.tar", "a.tar.gz", "a.tar.xz", "a")
    }
    for archive in read.values():
        assert dict(archive.files) == files
    assert len({archive.sha256 for archive in read.values()}) == 4


@pytest.mark.parametrize("compression", ["", "gz", "xz"])
def test_archives_are_deterministic(compression: str) -> None:
    one, two = (archives.tar_bytes(archives.build(kind="aot-c"), compression) for _ in range(2))
    assert one == two


def test_modules_merge(tmp_path: Path) -> None:
    files = archives.merge(archives.Spec(name="a"), archives.Spec(name="a_lib", kind="aot-c"))
    one, two = load_mlf(archives.write(files, tmp_path / "two.tar")).modules
    assert [file.member for file in one.sources] == ["codegen/host/src/a_lib0.c", "codegen/host/src/a_lib1.c"]
    assert [file.member for file in two.sources] == [
        "codegen/host/include/tvmgen_a_lib.h",
        "codegen/host/src/a_lib_lib0.c",
        "codegen/host/src/a_lib_lib1.c",
    ]
    assert two.interface is not None
