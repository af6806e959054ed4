# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from archives import Spec
from archives_c import header
from effort import Effort
from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.mlf.interface import InterfaceHeader, parse_interface

POOLS = """
#define TVMGEN_M_SRAM_WORKSPACE_POOL_SIZE 4096  /* bytes */
#define TVMGEN_M_WORKSPACE_SIZE (1024u)
#define TVMGEN_M_X_SIZE 0x10 // sixteen
#define TVMGEN_M_ODD_SIZE 4 + 4
#define TVMGEN_M_LEADING_SIZE 007
#define TVMGEN_M_NAME "x"
struct tvmgen_M_inputs { void* image_0; const float *aux_vec; };
struct tvmgen_M_outputs { void* out; /* void* no; */ };
struct tvmgen_M_workspace_pools { void* sram; };
struct tvmgen_M_devices { void* ethos_u; };
struct other { int x; };
int32_t tvmgen_m_run(
  struct tvmgen_M_inputs* inputs, struct tvmgen_M_outputs* outputs,
  struct tvmgen_M_workspace_pools* pools, struct tvmgen_M_devices* devices);
"""


def parse(text: str) -> tuple[InterfaceHeader | None, list[str]]:
    faults = FaultCollector("a.tar")
    found = parse_interface(text, "h", faults)
    return found, [str(fault) for fault in faults.faults]


def test_inputs_outputs_and_macros() -> None:
    found, faults = parse(header(Spec()))
    assert faults == []
    assert found == InterfaceHeader(
        run_function="tvmgen_tiny_run",
        inputs=("x",),
        outputs=("output",),
        workspace_pools=(),
        devices=(),
        macros={"TVMGEN_TINY_X_SIZE": -1717804352, "TVMGEN_TINY_WORKSPACE_SIZE": 104},
    )


def test_pools_and_devices() -> None:
    found, faults = parse(POOLS)
    assert faults == []
    assert found is not None

    assert found.inputs == ("image_0", "aux_vec")
    assert (found.outputs, found.workspace_pools, found.devices) == (("out",), ("sram",), ("ethos_u",))
    assert found.macros == {
        "TVMGEN_M_SRAM_WORKSPACE_POOL_SIZE": 4096,
        "TVMGEN_M_WORKSPACE_SIZE": 1024,
        "TVMGEN_M_X_SIZE": 16,
        "TVMGEN_M_LEADING_SIZE": 7,
    }


@pytest.mark.parametrize("parameters", ["", "void"])
def test_a_run_function_may_take_nothing(parameters: str) -> None:
    found, faults = parse(f"int32_t tvmgen_m_run({parameters});")
    assert faults == []
    assert found is not None
    assert (found.inputs, found.outputs) == ((), ())


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", ["h: no function ends in '_run'; one is the entry"]),
        ("int tvmgen_m_run;", ["h: no function ends in '_run'; one is the entry"]),
        ("int a_run(void); int b_run(void);", ["h: two functions end in '_run'; one is the entry"]),
        ("int a_run(int n);", ["h: a_run: the parameter 'int n' is not known"]),
        (
            "int a_run(struct a_inputs* a, struct a_inputs* b);",
            ["h: a_run: the struct of inputs is not defined", "h: a_run: two parameters of one kind"],
        ),
        (
            "struct a_inputs { void* x; void* x; int (*f)(int), bits : 3; }; int a_run(struct a_inputs* a);",
            ["h: inputs: a field is not a C identifier: ''", "h: inputs: two fields have one name"],
        ),
        ("x" * (1 << 18) + "y", ["h: a header of 262145 characters; at most 262144 are read"]),
    ],
)
def test_what_is_refused(text: str, faults: list[str]) -> None:
    found, seen = parse(text)
    assert found is None
    assert list(dict.fromkeys(seen)) == faults


def test_a_name_that_no_function_can_have() -> None:
    found, faults = parse(f"int {'a' * 1025}_run(void);")
    assert found is None
    assert any("is longer than 1024 characters" in fault for fault in faults)


@pytest.mark.parametrize(
    "text",
    [
        "a_run(" * 37_000,
        "struct a {" * 26_000,
        "#define " * 32_000,
        "/*" * 131_000,
        '"' * 262_000,
        "{" * 262_000,
    ],
)
def test_hostile_text_takes_little_effort(text: str) -> None:
    with Effort() as effort:
        found, faults = parse(text)
    assert found is None
    assert len(faults) == 1
    assert effort.calls < 20 * len(text)  # 5; what is quadratic takes thousands
