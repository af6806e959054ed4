# SPDX-License-Identifier: Apache-2.0
"""What is odd in an archive: each finding by itself, and none where nothing is odd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from model_cases import Net

from archives import Spec, build, edit_json, without, write
from mlf_sdk.formats.mlf import load_mlf
from mlf_sdk.model.build import build_model, choose_module
from mlf_sdk.model.oddities import Oddity, find_oddities

SOURCE = "codegen/host/src/tiny_lib1.c"
REGISTRY = "codegen/host/src/tiny_lib0.c"


def findings(files: dict[str, bytes], tmp_path: Path) -> list[Oddity]:
    archive = load_mlf(write(files, tmp_path / "odd.tar"))
    return list(find_oddities(archive, choose_module(archive, None), build_model(archive)))


def texts(files: dict[str, bytes], tmp_path: Path) -> list[str]:
    return [oddity.what for oddity in findings(files, tmp_path)]


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
    assert all(oddity.where and oddity.what and oddity.handled for oddity in found)


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
    (oddity,) = findings(files, tmp_path)
    assert oddity.where == REGISTRY
    assert "registry" in oddity.what
    assert oddity.handled == "not needed, and left out of the build: tiny_lib0.c, tiny_lib2.c"


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
    (oddity,) = [o for o in findings(files, tmp_path) if o.where == "the interface header"]
    assert "TVMGEN_TINY_X_SIZE -1717804352" in oddity.what
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
    (oddity,) = [o for o in findings(files, tmp_path) if o.where == "the interface header"]
    assert oddity.what.endswith("...")
    assert oddity.what.count("_SIZE") == 3


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
        "1 names are the same once made legal, e.g. 'a_b'"
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
        (oddity,) = findings(files, tmp_path)
        assert oddity.what == f"the code includes {header}"
        assert oddity.handled == handled
    files["codegen/host/include/vendor.h"] = b"#define VENDOR 1\n"
    assert findings(files, tmp_path) == []


def test_kernel_that_asks_for_much(tmp_path: Path) -> None:
    files = plain()
    files[SOURCE] = files[SOURCE].replace(b"(uint64_t)40", b"(uint64_t)4000")
    (oddity,) = findings(files, tmp_path)
    assert oddity.where == "tvmgen_tiny_fused_smooth"
    assert oddity.what == "asks for 4,000 bytes of workspace; its activations take 64"


def test_workspace_that_the_code_does_not_tell(tmp_path: Path) -> None:
    files = plain()
    files[SOURCE] = files[SOURCE].replace(b"(uint64_t)40", b"(uint64_t)(num_args * 20)")
    found = [o for o in findings(files, tmp_path) if "can't be read" in o.what]
    assert [(o.where, o.handled) for o in found] == [
        ("tvmgen_tiny_fused_smooth", "the archive's figure is used, a bound")
    ]
