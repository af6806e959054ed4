# SPDX-License-Identifier: Apache-2.0
"""What is odd in an archive: each finding by itself, and none where nothing is odd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mlf_sdk
from analysed import host_compiler
from archives import Spec, build, edit_json, without, write
from mlf_sdk.frontends.analysis import analyse
from mlf_sdk.frontends.mlf.archive import load_mlf
from mlf_sdk.frontends.mlf.findings import module_findings
from mlf_sdk.frontends.mlf.load import read_module, schedule_model
from mlf_sdk.ir.model import Finding
from model_cases import Net

SOURCE = "codegen/host/src/tiny_lib1.c"
REGISTRY = "codegen/host/src/tiny_lib0.c"


def findings(files: dict[str, bytes], tmp_path: Path) -> list[Finding]:
    archive = load_mlf(write(files, tmp_path / "odd.tar"))
    source = read_module(archive, None)
    return list(module_findings(source, analyse(schedule_model(source, None), host_compiler())))


def texts(files: dict[str, bytes], tmp_path: Path) -> list[str]:
    return [finding.what for finding in findings(files, tmp_path)]


def plain(spec: Spec | None = None) -> dict[str, bytes]:
    """An archive in which nothing is odd."""
    files = build(spec or Spec())
    files = edit_json(
        files, "metadata.json", lambda top: top["modules"]["tiny"].pop("export_datetime") and None
    )
    return without(files, REGISTRY) if (spec or Spec()).kind == "graph" else files


def main_of(top: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = top["modules"]["tiny"]["memory"]["functions"]["main"][0]
    return found


def test_nothing_odd(tmp_path: Path) -> None:
    assert findings(plain(), tmp_path) == []


def test_every_finding_is_whole(tmp_path: Path) -> None:
    found = [*findings(build(), tmp_path), *findings(build(kind="aot-c"), tmp_path)]
    assert len(found) >= 4
    assert all(finding.where and finding.what and finding.handled for finding in found)


def test_local_time_marked_as_utc(tmp_path: Path) -> None:
    files = edit_json(
        plain(),
        "metadata.json",
        lambda top: top["modules"]["tiny"].update(export_datetime="2021-02-03 04:05:06Z"),
    )
    assert [(o.where, o.what) for o in findings(files, tmp_path)] == [
        ("metadata.json: export_datetime", "local time, though it is marked as UTC")
    ]
    files = edit_json(
        plain(),
        "metadata.json",
        lambda top: top["modules"]["tiny"].update(export_datetime="2021-02-03 04:05:06"),
    )
    assert findings(files, tmp_path) == []


def test_code_that_is_left_out(tmp_path: Path) -> None:
    files = {
        **plain(),
        REGISTRY: build()[REGISTRY],
        "codegen/host/src/tiny_lib2.c": b"int unused(void) { return 0; }\n",
    }
    (finding,) = findings(files, tmp_path)
    assert finding.where == REGISTRY
    assert "registry" in finding.what
    assert finding.handled == "not needed, and left out of the build: tiny_lib0.c, tiny_lib2.c"


def test_workspace_of_main_that_is_not_what_the_code_takes(tmp_path: Path) -> None:
    found = texts(plain(Spec(kind="aot-c")), tmp_path)
    assert "workspace_size_bytes is 104; the code takes 112" in found
    files = edit_json(
        plain(Spec(kind="aot-c")), "metadata.json", lambda top: main_of(top).update(workspace_size_bytes=112)
    )
    assert not [text for text in texts(files, tmp_path) if "workspace_size_bytes" in text]


def test_graph_models_take_what_the_plan_says(tmp_path: Path) -> None:
    files = edit_json(plain(), "metadata.json", lambda top: main_of(top).update(workspace_size_bytes=1 << 20))
    assert findings(files, tmp_path) == []


@pytest.mark.parametrize("told", [0, None])
def test_constants_in_the_code(tmp_path: Path, told: int | None) -> None:
    def change(top: dict[str, Any]) -> None:
        main_of(top)["constants_size_bytes"] = told
        if told is None:
            del main_of(top)["constants_size_bytes"]

    files = edit_json(plain(Spec(kind="aot-c")), "metadata.json", change)
    assert "constants_size_bytes is 0 or missing, and the constants are in the code" in texts(files, tmp_path)
    assert not [t for t in texts(plain(Spec(kind="aot-c")), tmp_path) if "constants_size_bytes" in t]


def test_io_bytes(tmp_path: Path) -> None:
    files = edit_json(plain(), "metadata.json", lambda top: main_of(top).update(io_size_bytes=2288))
    assert texts(files, tmp_path) == ["io_size_bytes is 2,288; inputs and outputs take 64"]


def test_garbage_macros_of_the_interface_header(tmp_path: Path) -> None:
    files = plain(Spec(kind="aot-c"))
    (finding,) = [o for o in findings(files, tmp_path) if o.where == "the interface header"]
    assert "TVMGEN_TINY_X_SIZE -1717804352" in finding.what
    header = "codegen/host/include/tvmgen_tiny.h"
    files[header] = files[header].replace(b"-1717804352", b"32")
    assert not [o for o in findings(files, tmp_path) if o.where == "the interface header"]


def test_many_garbage_macros_are_not_all_listed(tmp_path: Path) -> None:
    files = plain(Spec(kind="aot-c"))
    header = "codegen/host/include/tvmgen_tiny.h"
    more = "".join(f"#define TVMGEN_TINY_Y{i}_SIZE 5\n" for i in range(9)).encode()
    files[header] = files[header].replace(
        b"struct tvmgen_tiny_inputs", more + b"struct tvmgen_tiny_inputs", 1
    )
    (finding,) = [o for o in findings(files, tmp_path) if o.where == "the interface header"]
    assert finding.what.endswith("...")
    assert finding.what.count("_SIZE") == 3


def net_findings(tmp_path: Path, net: Net, *heads: Any) -> list[str]:
    net.main.update(io_size_bytes=64, constants_size_bytes=1)
    return texts(net.files(*heads), tmp_path)


def test_names_that_are_no_c_identifiers(tmp_path: Path) -> None:
    net = Net()
    assert net_findings(tmp_path, net, net.call("neg", [net.input("image:0")], "-in0[i]")) == [
        "not C identifiers: 'image:0'"
    ]


def test_names_that_legalise_alike(tmp_path: Path) -> None:
    net = Net()
    x = net.call("neg", [net.input("x")], "-in0[i]", name="a.b")
    y = net.call("neg", [x], "-in0[i]", name="a:b")
    assert net_findings(tmp_path, net, net.call("neg", [y], "-in0[i]")) == [
        "tensors have the same name once it is made legal: 'a_b'"
    ]


def test_long_function_names(tmp_path: Path) -> None:
    net = Net()
    name = "fused_" + "nn_conv2d_" * 12
    y = net.call(name, [net.input("x")], "-in0[i]", name="y")
    assert net_findings(tmp_path, net, y) == [f"function names of up to {len(net.symbol(name))} characters"]


def test_headers_that_the_archive_does_not_have(tmp_path: Path) -> None:
    for header, handled in (("arm_nnfunctions.h", "pass --cmsis-nn PATH"), ("vendor.h", "can't be built")):
        files = plain()
        files[SOURCE] = f'#include "{header}"\n'.encode() + files[SOURCE]
        (finding,) = findings(files, tmp_path)
        assert finding.what == f"the code includes {header}"
        assert finding.handled == handled
    files["codegen/host/include/vendor.h"] = b"#define VENDOR 1\n"
    assert findings(files, tmp_path) == []


def test_kernel_that_asks_for_much(tmp_path: Path) -> None:
    files = plain()
    files[SOURCE] = files[SOURCE].replace(b"(uint64_t)40", b"(uint64_t)4000")
    (finding,) = findings(files, tmp_path)
    assert finding.where == "tvmgen_tiny_fused_smooth"
    assert finding.what == "asks for 4,000 bytes of workspace; its activations take 64"


def test_workspace_that_the_code_does_not_tell(tmp_path: Path) -> None:
    files = plain()
    files[SOURCE] = files[SOURCE].replace(b"(uint64_t)40", b"(uint64_t)(num_args * 20)")
    found = [o for o in findings(files, tmp_path) if "can't be read" in o.what]
    assert [(o.where, o.handled) for o in found] == [
        ("tvmgen_tiny_fused_smooth", "the archive's figure is used, a bound")
    ]


def test_sizes_of_storage_ids(tmp_path: Path) -> None:
    def change(top: dict[str, Any]) -> None:
        sids = top["modules"]["tiny"]["memory"]["sids"]
        sids[1]["size_bytes"], sids[3]["size_bytes"] = 4096, 4

    (finding,) = findings(edit_json(plain(), "metadata.json", change), tmp_path)
    assert finding.where == "metadata.json: memory.sids"
    assert finding.what == "2 of 5 sizes are wrong: storage id 1 is 4,096 bytes there, its tensors take 32"
    for odd in (7, None, [{"storage_id": "x"}], [{"storage_id": 1, "size_bytes": -4}], [[]]):
        files = edit_json(
            plain(),
            "metadata.json",
            lambda top, odd=odd: top["modules"]["tiny"]["memory"].update(sids=odd),
        )
        assert findings(files, tmp_path) == []


def test_sizes_of_storage_ids_in_version_1(tmp_path: Path) -> None:
    files = edit_json(build(version=1), "metadata.json", lambda top: top["memory"][2].update(size_bytes=99))
    assert [o.what for o in findings(files, tmp_path) if "sids" in o.where] == [
        "1 of 5 sizes are wrong: storage id 2 is 99 bytes there, its tensors take 32"
    ]


def test_prototypes_that_clash(tmp_path: Path) -> None:
    (finding,) = findings({**plain(), REGISTRY: build()[REGISTRY]}, tmp_path)
    assert "prototypes clash: tvmgen_tiny_fused_multiply takes TVMValue*, int*, int," in finding.what
    assert "and void*, int32_t*, int32_t," in finding.what
    (finding,) = findings({**plain(), REGISTRY: b"int nothing(void) { return 0; }\n"}, tmp_path)
    assert "clash" not in finding.what


def test_constants_with_too_few_digits(tmp_path: Path) -> None:
    files = plain()
    for good in (b"2.500000e-02f", b"3.402823e+38f", b"1.234567890e-01f", b"1.234567e-01"):
        files[SOURCE] = plain()[SOURCE].replace(
            b"return 0;", b"static volatile float v = " + good + b"; return 0;"
        )
        assert findings(files, tmp_path) == []
    bad = b"{ static volatile float v = 1.234567e-01f, w = 6.944444e-03f; (void)v; (void)w; } return 0;"
    files[SOURCE] = plain()[SOURCE].replace(b"return 0;", bad, 1)
    (finding,) = findings(files, tmp_path)
    assert finding.where == SOURCE
    assert finding.what.startswith("2 float constants are printed with 7 digits")
    assert "1.234567e-01f" in finding.what


@pytest.mark.toolchain
@pytest.mark.usefixtures("needs_host")
def test_infinities(tmp_path: Path) -> None:
    """Found, and built: the headers define what TVM prints."""
    files = plain()
    files[SOURCE] = files[SOURCE].replace(b"v > 0.000000e+00f", b"v > -inff && v > 0.000000e+00f")
    (finding,) = findings(files, tmp_path)
    assert finding.what == "1 infinity is printed as `inff`, which is no C"
    assert finding.handled == "the runtime's headers define it"
    assert mlf_sdk.run(write(files, tmp_path / "infinite.tar"), board="host").outputs
