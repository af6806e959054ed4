# SPDX-License-Identifier: Apache-2.0
"""Every real archive is read; where they are missing, these tests say so and are skipped."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from mlf_sdk.frontends.mlf.archive import RawModule, load_mlf
from mlf_sdk.frontends.mlf.params import write_params

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "mlf"
ARCHIVES = sorted(FOLDER.rglob("*.tar")) if FOLDER.is_dir() else []

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not ARCHIVES, reason=f"no real archives: {FOLDER} is missing"),
]


@pytest.mark.parametrize("path", ARCHIVES or [FOLDER], ids=lambda path: path.stem)
def test_is_read(path: Path) -> None:
    archive = load_mlf(path)
    assert archive.version == (5 if "0.8.0" in path.name else 7)
    assert len(archive.modules) == (2 if path.name.startswith("multi") else 1)
    kind = path.name.split("-")[1]
    for module in archive.modules:
        check(module, kind if not path.name.startswith("operator") else "operator")


def check(module: RawModule, kind: str) -> None:
    has_graph = "graph" in kind
    assert (module.graph is not None) == has_graph
    assert (module.interface is not None) == (kind in ("aotc", "aotcm7", "usmp", "aotusmp", "cmsisnn"))
    assert {file.kind for file in module.sources} - {"h"} == ({"o"} if kind.startswith("llvm") else {"c"})
    assert module.relay
    assert (module.metadata.style == "operator") == (kind == "operator")
    if module.graph is not None:
        names = {tensor.name for tensor in module.params}
        arguments = [module.graph.nodes[index].name for index in module.graph.arg_nodes]
        assert names <= set(arguments)
        main = module.metadata.main[0]
        if main.inputs is not None:
            assert {name for name in arguments if name not in names} == set(main.inputs)
            sizes = [module.graph.entry(head).size_bytes for head in module.graph.heads]
            assert sorted(sizes) == sorted(size.size_bytes for size in main.outputs.values())
    if module.interface is not None:
        assert module.interface.inputs
        assert module.interface.outputs


@pytest.mark.parametrize(
    "path", [path for path in ARCHIVES if "graph-" in path.name] or [FOLDER], ids=lambda p: p.stem
)
def test_parameters_are_written_as_they_were_read(path: Path) -> None:
    archive = load_mlf(path)
    with tarfile.open(path) as tar:
        (member,) = [member for member in tar if member.name.endswith(".params")]
        original = tar.extractfile(member).read()
    assert write_params(archive.modules[0].params) == original
