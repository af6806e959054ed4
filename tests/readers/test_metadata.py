# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from archives import Spec, dump, metadata
from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.mlf.metadata import parse_metadata
from mlf_sdk.frontends.mlf.rawmetadata import MainMemory, Metadata, OperatorArg, TensorSize
from mlf_sdk.ir.dtype import DType

F32 = DType.parse("float32")


def parse(value: Any) -> tuple[Metadata | None, list[str]]:
    faults = FaultCollector("a.tar")
    found = parse_metadata(value if isinstance(value, bytes) else dump(value), faults)
    return found, [str(fault).removeprefix("metadata.json: ") for fault in faults.faults]


def good(value: Any) -> Metadata:
    found, faults = parse(value)
    assert faults == []
    assert found is not None
    return found


@pytest.mark.parametrize("version", range(1, 8))
def test_every_version_reads_alike(version: int) -> None:
    found = good(metadata(Spec(version=version)))
    (module,) = found.modules
    assert found.version == version
    assert (module.name, module.style, module.executors) == ("tiny", "full-model", ("graph",))
    assert module.targets == ("c -keys=cpu",)
    assert module.export_datetime == "2021-02-03 04:05:06Z"
    assert module.tvm_version is None
    assert module.operator_args == {}
    if version == 1:
        assert (module.main, module.operator_functions) == ((), {})
        return
    prefix = "tvmgen_tiny_" if version >= 3 else ""
    assert module.operator_functions == {
        f"{prefix}fused_multiply": 0,
        f"{prefix}fused_smooth": 40,
        f"{prefix}fused_add_relu": 0,
    }
    sizes = {"x": TensorSize(size_bytes=32, dtype=F32)}, {"output": TensorSize(size_bytes=32, dtype=F32)}
    assert module.main == (
        MainMemory(
            device=1,
            workspace_size_bytes=104,
            constants_size_bytes=64,
            io_size_bytes=64,
            inputs=sizes[0] if version == 7 else None,
            outputs=sizes[1] if version == 7 else None,
        ),
    )


@pytest.mark.parametrize("version", [4, 5, 6, 7])
def test_operator_style_is_flat_in_every_version(version: int) -> None:
    top = metadata(Spec(version=version, kind="operator"))
    assert "modules" not in top
    (module,) = good(top).modules
    assert (module.style, module.executors, module.main, module.operator_functions) == (
        "operator",
        (),
        (),
        {},
    )
    arguments = [OperatorArg(name=name, dtype=F32, shape=(8,), size_bytes=32) for name in "AB"]
    assert module.operator_args == {"scale": tuple(arguments)}


def test_operators_need_no_executors() -> None:
    top = metadata(Spec(kind="operator"))
    del top["executors"]
    assert good(top).modules[0].executors == ()


def test_several_modules_in_the_order_of_the_file() -> None:
    module = metadata(Spec())["modules"]["tiny"]
    names = [module.name for module in good({"version": 7, "modules": {"z": module, "a": module}}).modules]
    assert names == ["z", "a"]


def test_the_compiler_version() -> None:
    assert good(metadata(Spec(kind="aot-c"))).modules[0].tvm_version == "0.11.1"
    top = metadata(Spec(version=5))
    top["external_dependencies"] = [{"url": "x"}]
    assert good(top).modules[0].tvm_version is None


def test_lists_and_maps_are_both_read() -> None:
    top = metadata(Spec(version=5))
    uses = [{"device": 1, "workspace_size_bytes": 8}, {"device": 2, "workspace_size_bytes": 16}]
    top["memory"]["functions"]["operator_functions"] = {"f": uses, "g": []}
    top["target"] = {"2": "ethos", "1": "c"}
    (module,) = good(top).modules
    assert module.operator_functions == {"f": 24, "g": 0}
    assert module.targets == ("c", "ethos")


def test_a_function_that_is_listed_twice_has_both_uses() -> None:
    top = metadata(Spec(version=5))
    uses = [
        {"function_name": "f", "workspace": [{"device": device, "workspace_size_bytes": 8}]}
        for device in (1, 2)
    ]
    top["memory"]["functions"]["operator_functions"] = uses
    assert good(top).modules[0].operator_functions == {"f": 16}


def test_little_is_needed() -> None:
    (module,) = good({"version": 1, "model_name": "m", "runtimes": ["graph"]}).modules
    assert (module.main, module.targets, module.export_datetime) == ((), (), None)


def test_empty_texts_are_left_alone() -> None:
    top = metadata(Spec())
    top["modules"]["tiny"]["target"] = [""]
    assert good(top).modules[0].targets == ("",)


def test_garbage_in_sids_is_left_alone() -> None:
    top = metadata(Spec(version=5))
    top["memory"]["sids"] = [{"size_bytes": -1}, None, {"storage_id": 1, "size_bytes": -1}]
    (module,) = good(top).modules
    assert module.storage_bytes == {}


def test_all_faults_are_reported_together() -> None:
    top = metadata(Spec())
    module = top["modules"].pop("tiny")
    module["style"] = "x"
    module["executors"] = ["vm", "graph", "tpu"]
    module["target"] = [1, "\n"]
    module["memory"]["functions"]["main"][0]["device"] = -1
    module["memory"]["functions"]["main"].append(5)
    module["memory"]["functions"]["operator_functions"][0] = {"function_name": "f()", "workspace": [1]}
    module["external_dependencies"] = [1, {"version_spec": "\x00"}]
    top["modules"]["a/b"] = module
    found, faults = parse(top)
    assert found is not None
    at = "$.modules['a/b']"
    assert faults == [
        f"{at}.model_name: the name of a module has a path separator: 'a/b'",
        f"{at}.style: unknown style 'x'; full-model and operator are known",
        f"{at}.executors: unknown executor 'vm'; graph and aot are known",
        f"{at}.executors: unknown executor 'tpu'; graph and aot are known",
        f"{at}.target[0]: Expected `str`, got `int`",
        f"{at}.target[1]: a text has control or unprintable characters: '\\n'",
        f"{at}.memory.functions.main[0].device: -1 is out of range",
        f"{at}.memory.functions.main[1]: Expected `object`, got `int`",
        f"{at}.memory.functions.operator_functions[0].function_name: the name of a function is not a C identifier: 'f()'",
        f"{at}.memory.functions.operator_functions[0].workspace[0]: Expected `object`, got `int`",
        f"{at}.external_dependencies[0]: Expected `object`, got `int`",
        f"{at}.external_dependencies[1].version_spec: a text has control or unprintable characters: '\\x00'",
    ]


@pytest.mark.parametrize(
    ("version", "fault"),
    [
        (0, "$.version: 0; versions 1 to 7 are known"),
        (8, "$.version: 8; versions 1 to 7 are known"),
        (True, "$.version: Expected `int`, got `bool`"),
        (5.0, "$.version: Expected `int`, got `float`"),
        ("5", "$.version: Expected `int`, got `str`"),
        (None, "$.version: Expected `int`, got `null`"),
    ],
)
def test_versions_that_are_not_known(version: object, fault: str) -> None:
    top = {**metadata(Spec(version=5)), "version": version}
    assert parse(top) == (None, [fault])


def test_no_version() -> None:
    found, faults = parse({})
    assert found is None
    assert faults == ["$.version: is missing: not the metadata of a Model Library Format archive"]


def test_the_name_is_needed_when_flat() -> None:
    top = metadata(Spec(version=6))
    del top["model_name"]
    assert "$.model_name: is missing" in parse(top)[1]
