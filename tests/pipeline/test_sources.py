# SPDX-License-Identifier: Apache-2.0
"""Source of kernels: the function of a step, its comment, and the functions of its file that it calls."""

from __future__ import annotations

from pathlib import Path

from archives import Spec, build, write
from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.pipeline import sources
from mlf_sdk.pipeline.api import load
from mlf_sdk.pipeline.sources import kernel_sources
from planning import plan_project

TEXT = """#include <stdint.h>

static int helper(int a)
{
    return a + 1;
}

static int unused(int a) {
    return a;
}

extern int declared(int a);

/* Layer 3: CONV_2D */
int32_t
{name}(
    const int *x)
{{
    if (*x) {{
        return helper(*x);
    }}
    return 0;
}}
"""


def _project(tmp_path: Path, text: str) -> tuple[Path, LockModel, str]:
    archive = write(build(Spec()), tmp_path / "a.tar")
    model = plan_project([load(archive)], board="mps2-an386").lock.models[0]
    name = model.steps[0].symbol
    path = tmp_path / "app" / "model" / model.c_name / "kernels" / "lib0.c"
    path.parent.mkdir(parents=True)
    path.write_text(text.replace("{{", "{").replace("}}", "}").replace("{name}", name))
    return tmp_path / "app", model, name


def test_a_function_and_what_it_calls(tmp_path: Path) -> None:
    folder, model, name = _project(tmp_path, TEXT.replace("int32_t\n", "int32_t "))
    found = kernel_sources(folder, model)
    assert sorted(found) == sorted([name, "helper"])
    kernel = found[name]
    assert kernel.path.endswith("kernels/lib0.c")
    assert kernel.text.startswith("/* Layer 3: CONV_2D */\nint32_t ")
    assert kernel.text.endswith("return 0;\n}")
    assert kernel.calls == ("helper",)
    assert (folder / kernel.path).read_text().splitlines()[kernel.line - 1].startswith(f"int32_t {name}(")
    assert found["helper"].text == "static int helper(int a)\n{\n    return a + 1;\n}"


def test_a_long_function_is_cut(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sources, "LONGEST", 40)
    folder, model, name = _project(tmp_path, TEXT.replace("int32_t\n", "int32_t "))
    found = kernel_sources(folder, model)
    assert found[name].is_cut
    assert len(found[name].text) == 40
    assert found[name].calls == ("helper",)


def test_no_sources_no_functions(tmp_path: Path) -> None:
    archive = write(build(Spec()), tmp_path / "a.tar")
    model = plan_project([load(archive)], board="mps2-an386").lock.models[0]
    assert kernel_sources(tmp_path, model) == {}
