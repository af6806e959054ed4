# SPDX-License-Identifier: Apache-2.0
"""Plain C sources of models with the manifest of a build system: pure; `exportformat` has the formats."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mlf_sdk.codegen.context import model_values
from mlf_sdk.codegen.exportformat import ExportFormat
from mlf_sdk.codegen.link import Linkage, build_values
from mlf_sdk.codegen.options import DEFAULT_KERNEL_FLAGS, NEEDED_FLAGS
from mlf_sdk.codegen.render import render_models
from mlf_sdk.codegen.templates import template_text
from mlf_sdk.errors import InputError
from mlf_sdk.ir.model import Model, UnitKind, needs_cmsis_nn
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.tools.ctext import Values, byte_rows

if TYPE_CHECKING:
    from mlf_sdk.codegen.options import ProjectOptions
    from mlf_sdk.codegen.samples import SampleOutput

_HEADER_ROOT: Final = "crt/include/"
_RUNTIME: Final = frozenset({"crt/src/mlf.c", "crt/src/mlf_backend.c", "crt/src/mlf_internal.h"})
_UNUSED: Final = (
    "mlf/mlf_crc32.h",
    "mlf/mlf_platform.h",
    "mlf/mlf_fault.h",
)  # of applications with a console
_PRELUDE: Final = b'#include "mlf_kernel.h"\n'
_FLAGS: Final = (*NEEDED_FLAGS, "-ffp-contract=off")  # the level of optimisation is the build's
_STACK_BYTES: Final = 4096  # of the thread that runs the example
_INCLUDE: Final = re.compile(rb'^([ \t]*#[ \t]*include[ \t]*)"([^"\n]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Files of an export.

    Attributes:
        files: relative path -> content.
        user_files: those that are the user's, and kept, once edited.
    """

    files: Mapping[str, bytes]
    user_files: frozenset[str]


def render_export(
    layouts: Sequence[ModelLayout],
    linkages: Sequence[Linkage],
    options: ProjectOptions,
    chosen: ExportFormat,
    *,
    version: str,
    expected: Sequence[Sequence[SampleOutput]] = (),
) -> Export:
    """Render all files of an export.

    Args:
        version: of the package, for manifests that state one.
        expected: outputs of each model for the example's sample; none: not known.
    """
    models = [model_values(layout, linkage, options.params) for layout, linkage in _pairs(layouts, linkages)]
    name = models[0]["c_name"]
    texts = {"name": name, "macro": name.upper()}
    sources = _sources(layouts, linkages, options)
    files = {f"{chosen.sources}/{path}": data for path, data in sources.items()}
    example = chosen.example.format(**texts)
    entries = {path.format(**texts): template for path, template in chosen.files.items()}
    entries |= {f"{example}/{name}_example{end}": f"exports/example{end}.j2" for end in (".c", ".h")}
    samples = _samples(layouts, models, expected)
    user_files = frozenset(path for path in entries if path.startswith(f"{example}/"))
    compiled = sorted(path for path in files if path.endswith(".c"))
    x: Values = {
        **texts,
        "names": ", ".join(model["c_name"] for model in models),
        "version": version,
        "models": models,
        "sources": compiled,
        "kernels": [path for path in compiled if files[path].startswith(_PRELUDE)],
        "kernel_flags": _flags(options),
        "example_files": sorted(path for path in user_files if path.endswith((".c", ".h")))
        + [f"{example}/{path}" for path in samples],
        "stack_bytes": _STACK_BYTES,
    }
    view: Values = {"x": x, "f": chosen, "how": chosen.how.format(**texts)}
    files |= {f"{example}/{path}": data for path, data in samples.items()}
    files |= {path: template_text(template, view) for path, template in entries.items()}
    files["README.md"] = template_text("exports/README.md.j2", view)
    return Export(files=dict(sorted(files.items())), user_files=user_files)


def _pairs(
    layouts: Sequence[ModelLayout], linkages: Sequence[Linkage]
) -> Iterator[tuple[ModelLayout, Linkage]]:
    return zip(layouts, linkages, strict=True)


def _flags(options: ProjectOptions) -> list[str]:
    """Flags of the kernels: those of the user, and those that they need."""
    chosen = options.kernel_flags if options.kernel_flags != DEFAULT_KERNEL_FLAGS else ()
    return list(dict.fromkeys((*_FLAGS, *chosen)))


def _samples(
    layouts: Sequence[ModelLayout], models: Sequence[Values], expected: Sequence[Sequence[SampleOutput]]
) -> dict[str, bytes]:
    from mlf_sdk.codegen.samples import sample_values  # numpy takes time to load

    result = {}
    for layout, model, outputs in zip(layouts, models, expected or [()] * len(models), strict=True):
        sample = {"s": sample_values(layout, outputs), "m": model}
        result[f"{model['c_name']}_sample.h"] = template_text("common/sample.h.j2", sample)
    return result


def _sources(
    layouts: Sequence[ModelLayout], linkages: Sequence[Linkage], options: ProjectOptions
) -> dict[str, bytes]:
    """Sources and headers in one folder, for one include path; the runtime's headers lie in folders of it."""
    builds = [build_values(layout, linkage) for layout, linkage in _pairs(layouts, linkages)]
    rendered = {
        path: data for path, data in render_models(layouts, linkages, options).items() if _is_wanted(path)
    }
    kernels = {path for built in builds for path in built["sources"]}
    names = _flat_names(rendered, kernels)
    result = {
        names[path]: (_PRELUDE if path in kernels else b"") + _with_flat_includes(path, data, names)
        for path, data in rendered.items()
    }
    for layout, linkage in _pairs(layouts, linkages):
        if layout.params_bytes:
            values = model_values(layout, linkage, options.params)
            view: Values = {"m": values, "parts": _params_parts(values, layout.params_blob())}
            result[f"{layout.model.c_name}_params.c"] = template_text("exports/params.c.j2", view)
    view = {
        "foreign": any(built["foreign_c"] for built in builds),
        "renames": sorted({pair for linkage in linkages for pair in linkage.renames.items()}),
    }
    return {**result, "mlf_kernel.h": template_text("exports/kernel.h.j2", view)}


def _params_parts(values: Values, blob: bytes) -> list[Values]:
    """Arrays of a model's parameters: one, or one for each memory that holds some."""
    whole = {"symbol": values["params_symbol"], "first": 0, "size_bytes": len(blob), "section": ""}
    return [
        {**part, "rows": byte_rows(blob[part["first"] : part["first"] + part["size_bytes"]])}
        for part in values["params_parts"] or [whole | {"memory": ""}]
    ]


def check_is_c(model: Model) -> None:
    """Refuse code that no plain C compiler builds anywhere.

    Raises:
        InputError: objects, C++, or calls of a library that is not there.
    """
    kinds = {unit.kind for unit in model.units if unit.linked}
    lacks = (
        ("objects that are compiled already", UnitKind.OBJECT in kinds),
        ("C++ code", UnitKind.CXX in kinds),
        ("assembly in files of its own", UnitKind.ASSEMBLY in kinds),
        ("calls of CMSIS-NN", needs_cmsis_nn(model)),
    )
    for what, is_there in lacks:
        if is_there:
            raise InputError(
                f"the archive has {what}: an export is plain C",
                where=f"model {model.name}",
                hint="Export the model that it was made from, without --asm file, or generate a project.",
            )


def _is_wanted(path: str) -> bool:
    if path.startswith(_HEADER_ROOT):
        return path.removeprefix(_HEADER_ROOT) not in _UNUSED
    if path.startswith("crt/"):
        return path in _RUNTIME
    return path.endswith((".c", ".h")) and not path.endswith("/rename.h")


def _flat_names(rendered: Mapping[str, bytes], kernels: Collection[str]) -> dict[str, str]:
    """Name of each file in the folder of sources; one that another file includes is no source of its own."""
    count = Counter(path.rpartition("/")[2] for path in rendered)
    built = {f"model/{path.split('/')[1]}/{path.split('/')[1]}.c" for path in kernels}
    names = {}
    for path in rendered:
        name = path.rpartition("/")[2]
        if path.startswith(_HEADER_ROOT):
            names[path] = path.removeprefix(_HEADER_ROOT)
            continue
        if count[name] > 1:
            name = path.removeprefix("model/").replace("/", "_")
        is_source = path in kernels or path in built or path in _RUNTIME
        names[path] = f"{name}.inc" if path.endswith(".c") and not is_source else name
    return names


def _with_flat_includes(path: str, data: bytes, names: Mapping[str, str]) -> bytes:
    """Source whose inclusions of files of its model name them as they lie in the one folder."""
    folder = posixpath.dirname(path)
    model = "/".join(path.split("/")[:2]) + "/"
    mine = [one for one in names if one.startswith(model)]

    def renamed(result: re.Match[bytes]) -> bytes:
        text = result[2].decode("utf-8", "replace")
        beside = posixpath.normpath(posixpath.join(folder, text))
        there = [one for one in mine if one == beside] or [one for one in mine if one.endswith(f"/{text}")]
        return result[1] + b'"' + names[there[0]].encode() + b'"' if there else result[0]

    return _INCLUDE.sub(renamed, data)
