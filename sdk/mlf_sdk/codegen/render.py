# SPDX-License-Identifier: Apache-2.0
"""Rendering of a planned project to files: pure and deterministic; only templates are read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mlf_sdk.codegen.context import model_values
from mlf_sdk.codegen.entry import entry_values
from mlf_sdk.codegen.link import Linkage, build_values, entry_files, unit_paths
from mlf_sdk.codegen.lock import Lock, encode_lock
from mlf_sdk.codegen.options import MONOCYPHER_FLAGS, QUIET_C_FLAGS, WARNINGS, ProjectOptions
from mlf_sdk.codegen.provenance import SOURCE as PROVENANCE
from mlf_sdk.codegen.provenance import provenance_source
from mlf_sdk.codegen.templates import template_text
from mlf_sdk.codegen.writer import LOCK_NAME
from mlf_sdk.ir.names import legal_identifier
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.resources import data_dir
from mlf_sdk.tools.ctext import Values

if TYPE_CHECKING:
    from mlf_sdk.codegen.samples import SampleOutput

_MODULE_FILES = frozenset(
    {
        "CMakeLists.txt",
        "Kconfig",
        "module.yml",
        "gdb_runner.cmake",
        "workspace.cmake",
        "notes.ld",
        "west-commands.yml",
        "west_commands.py",
    }
)
_WHOLE_FOLDERS = ("crt/src/", "crt/rpc/", "crt/graph/", "crt/mlperf/")  # all their sources are built
_BESIDE_INFERENCE = tuple(
    f"crt/{folder}/" for folder in ("baremetal", "mlperf", "package", "params", "platform", "rpc", "secure")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformFiles:
    """Files and build settings that a platform adds to a project.

    Attributes:
        board: name of the board, for people.
        is_host: native build.
        files: files of the board, relative to the project.
        runtime_sources: platform sources, relative to the project.
        crt_folders: folders of ``crt`` to copy.
        crt_without: files and folders in them to leave out.
        definitions: preprocessor definitions of the whole image.
        flags: how the board's code is compiled; None: the native compiler as it is.
        toolchain: CMake toolchain file, relative to the project.
        templates: file of the project -> template; None: a CMake project of our own, with presets.
        model_templates: file of each model's folder -> template.
        values: more values for the templates.
    """

    board: str
    title: str
    is_host: bool
    files: Mapping[str, bytes]
    runtime_sources: tuple[str, ...]
    crt_folders: tuple[str, ...]
    crt_without: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    toolchain: str = ""
    cmsis_nn_includes: tuple[str, ...] = field(default=())
    templates: Mapping[str, str] | None = None
    model_templates: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


def render_project(
    layouts: Sequence[ModelLayout],
    linkages: Sequence[Linkage],
    platform: PlatformFiles,
    options: ProjectOptions,
    lock: Lock,
    *,
    expected: Sequence[Sequence[SampleOutput]] = (),
) -> dict[str, bytes]:
    """Render all files of a project: relative path -> content.

    Args:
        expected: outputs of each model for the sample of the standalone application; none: not known.
    """
    renderer = _Renderer(layouts, linkages, platform, options, expected)
    files = renderer.project_files()
    files[LOCK_NAME] = encode_lock(lock)
    files[PROVENANCE] = provenance_source(lock)
    return dict(sorted(files.items()))


def render_models(
    layouts: Sequence[ModelLayout], linkages: Sequence[Linkage], options: ProjectOptions
) -> dict[str, bytes]:
    """Render the models, and a copy of the executor, without a project around them."""
    renderer = _Renderer(layouts, linkages, _NO_PLATFORM, options, ())
    files = _crt_files(("include", "src"), ())
    for layout, linkage in zip(layouts, linkages, strict=True):
        values = model_values(layout, linkage, options.params, options.executor)
        files.update(renderer.model_files(layout, linkage, values))
    return files


_NO_PLATFORM = PlatformFiles(
    board="", title="", is_host=False, files={}, runtime_sources=(), crt_folders=("include", "src")
)


class _Renderer:
    def __init__(
        self,
        layouts: Sequence[ModelLayout],
        linkages: Sequence[Linkage],
        platform: PlatformFiles,
        options: ProjectOptions,
        expected: Sequence[Sequence[SampleOutput]],
    ) -> None:
        self.layouts = layouts
        self.expected = expected or [()] * len(layouts)
        self.linkages = linkages
        self.platform = platform
        self.options = options

    def project_files(self) -> dict[str, bytes]:
        files = dict(self.platform.files)
        models = []
        for layout, linkage, outputs in zip(self.layouts, self.linkages, self.expected, strict=True):
            values = model_values(layout, linkage, self.options.params, self.options.executor)
            files.update(self.model_files(layout, linkage, values))
            if self.options.app == "standalone":
                from mlf_sdk.codegen.samples import sample_values  # numpy takes time to load

                sample = {"s": sample_values(layout, outputs), "m": values}
                path = f"model/{layout.model.c_name}/{layout.model.c_name}_sample.h"
                files[path] = template_text("common/sample.h.j2", sample)
            models.append({**values, **build_values(layout, linkage, self.options.executor)})
        crt = _crt_files(self.platform.crt_folders, self.platform.crt_without)
        files.update(crt)
        top = self._top_values(models, crt)
        templates = self.platform.templates
        if templates is None:
            files["CMakePresets.json"] = _presets(self.platform.toolchain, self.options.kernel_flags)
            templates = {**_plain_templates(self.options.app), **_DESK_TEMPLATES}
        files.update({path: template_text(template, top) for path, template in templates.items()})
        for model in models:
            for path, template in self.platform.model_templates.items():
                files[f"{model['dir']}/{path}"] = template_text(template, {**top, "m": model})
        return files

    def _top_values(self, models: list[Values], crt: Mapping[str, bytes]) -> Values:
        runtime = [path for path in crt if path.startswith(_WHOLE_FOLDERS) and path.endswith(".c")]
        runtime += self.platform.runtime_sources
        if self.options.executor == "graph":
            from mlf_sdk.codegen.dynamic import params_sources

            runtime += params_sources(self.options)
        if self.options.trust or self.options.session_keys:
            from mlf_sdk.codegen.secure import crypto_sources, secure_sources

            runtime += [*crypto_sources(self.options), *secure_sources(self.options)]
        steps = [step for layout in self.layouts for step in layout.steps]
        more_arenas = self.options.app == "rpc" and any(len(m["arenas"]) > 1 for m in models)
        names = ", ".join(m["c_name"] for m in models)
        cmsis = None
        if self.options.cmsis_nn is not None and any(m["needs_cmsis_nn"] for m in models):
            cmsis = {
                "path": self.options.cmsis_nn,
                "include_dirs": self.platform.cmsis_nn_includes,
                "is_module": self.options.cmsis_nn_module,
            }
        return {
            "names": names,
            "toolchain": self.platform.toolchain,
            "gdb": "gdb-multiarch",
            "project_name": legal_identifier(f"{models[0]['c_name']}_app"),
            "board": {
                "name": self.platform.board,
                "title": self.platform.title,
                "is_host": self.platform.is_host,
            },
            "app": self.options.app,
            "executor": self.options.executor,
            "models": models,
            "kernel_flags": self.options.kernel_flags,
            "quiet_c_flags": QUIET_C_FLAGS,
            "warnings": WARNINGS,
            "trace": self.options.traces,
            "apart": self.options.plan == "none",
            "has_cxx": any(s.endswith(".cc") for m in models for s in m["sources"]),
            "uses_tables": not all(m["sequence"] for m in models),
            "uses_sequences": any(m["sequence"] for m in models),
            "uses_slots": any(
                s.workspaces if self.options.executor == "graph" else s.allocated for s in steps
            ),
            "uses_stack": any(s.workspace_stack_bytes for s in steps),
            "uses_streams": any(step.stream is not None for step in steps),
            "definitions": (*self.platform.definitions, *(["MLF_RPC_ARENAS=1"] if more_arenas else [])),
            "more_arenas": more_arenas,
            "runtime_sources": runtime,
            "small_sources": _compiled_for_size(runtime, self.options.app),
            "cmsis_nn": cmsis,
            "expected": [len(outputs) for outputs in self.expected if outputs],
            "p": self._mlperf_values(),
            "trust": self.options.trust,
            "session_keys": [bytes.fromhex(key) for key in self.options.session_keys],
            "monocypher": self.options.monocypher,
            "monocypher_flags": MONOCYPHER_FLAGS,
            **self.platform.values,
        }

    def _mlperf_values(self) -> Values | None:
        if self.options.app != "mlperf":
            return None
        from mlf_sdk.codegen.mlperf import mlperf_values

        return mlperf_values(self.layouts[0].model, self.options)

    def _tables(self, layout: ModelLayout, linkage: Linkage, values: Values) -> dict[str, bytes]:
        """Header, tables and parameters of a model for the chosen executor."""
        stem = f"model/{layout.model.c_name}/{layout.model.c_name}"
        view = {"m": values, "params": self.options.params}
        if self.options.executor == "graph":
            return self._dynamic_tables(layout, linkage, values, stem)
        files = {
            f"{stem}.h": template_text("common/model.h.j2", view),
            f"{stem}.c": template_text("common/model.c.j2", view),
        }
        if layout.params_bytes:
            files[f"{stem}_params.S"] = template_text("common/params.S.j2", view)
            files[f"{stem}_params.bin"] = layout.params_blob()
        return files

    def _dynamic_tables(
        self, layout: ModelLayout, linkage: Linkage, values: Values, stem: str
    ) -> dict[str, bytes]:
        from mlf_sdk.codegen.dynamic import dynamic_values, seal_bytes
        from mlf_sdk.codegen.paramsblob import HEADER as PARAMS_HEADER

        dynamic, more = dynamic_values(layout, linkage, values)
        view = {
            "m": more,
            "params": self.options.params,
            "params_header_bytes": PARAMS_HEADER.size,
            "trust": [bytes.fromhex(key) for key in self.options.trust],
            "model_version": self.options.model_version,
            "seal_bytes": seal_bytes(layout) if self.options.trust and layout.params_bytes else 0,
            **self.platform.values,
        }
        templates = {".h": "dynamic_model.h.j2", ".c": "dynamic_model.c.j2", "_blobs.S": "dynamic_blobs.S.j2"}
        files = {f"{stem}{end}": template_text(f"common/{name}", view) for end, name in templates.items()}
        files[f"{stem}_graph.bin"] = dynamic.graph.pack()
        if layout.params_bytes:
            files[f"{stem}_params.bin"] = dynamic.params.pack()
        return files

    def model_files(self, layout: ModelLayout, linkage: Linkage, values: Values) -> dict[str, bytes]:
        model = layout.model
        folder = f"model/{model.c_name}"
        view = {"m": values}
        paths = unit_paths(model)
        files = {f"{folder}/{paths[unit.member]}": unit.data for unit in model.units}
        files.update(self._tables(layout, linkage, values))
        for path, steps in entry_files(layout, self.options.executor).items():
            unit = paths.get(steps[0].abi.unit, "")
            entries = {"g": entry_values(layout, linkage, steps, unit), **view}
            files[path] = template_text("common/entry.c.j2", entries)
        if model.exports:
            files[f"{folder}/exports.syms"] = "".join(f"{name}\n" for name in model.exports).encode()
        if linkage.renames:
            pairs = sorted(linkage.renames.items())
            lines = "".join(f"#define {old} {new}\n" for old, new in pairs)
            head = "/* SPDX-License-Identifier: Apache-2.0 */\n/* Symbols that another model has too. */\n"
            files[f"{folder}/rename.h"] = (head + lines).encode()
            files[f"{folder}/rename.syms"] = "".join(f"{old} {new}\n" for old, new in pairs).encode()
        return files


_DESK_TEMPLATES = {
    ".gdbinit": "vscode/gdbinit.j2",
    ".gitignore": "vscode/gitignore.j2",
    ".vscode/cmake-kits.json": "vscode/cmake-kits.json.j2",
    ".vscode/launch.json": "vscode/launch.json.j2",
    ".vscode/tasks.json": "vscode/tasks.json.j2",
}


def _compiled_for_size(runtime: Sequence[str], app: str) -> list[str]:
    """Sources that no inference waits for; beside a server the C library's functions on memory are fast."""
    fast = () if app == "standalone" else ("crt/baremetal/memory.c",)
    return [path for path in runtime if path.startswith(_BESIDE_INFERENCE) and path not in fast]


def _plain_templates(app: str) -> dict[str, str]:
    return {
        "CMakeLists.txt": "common/CMakeLists.txt.j2",
        "README.md": "common/README.md.j2",
        "app.cmake": "common/app.cmake.j2",
        "src/main.c": f"common/main_{app}.c.j2",
    }


def _crt_files(folders: Sequence[str], without: Sequence[str]) -> dict[str, bytes]:
    """Copies of the runtime's folders, so that the project builds without the SDK."""
    root = data_dir("crt")
    files = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            is_wanted = path.suffix in (".c", ".h", ".S") or path.name in _MODULE_FILES
            if is_wanted and not any(name == one or name.startswith(f"{one}/") for one in without):
                files[f"crt/{name}"] = path.read_bytes()
    return files


def _presets(toolchain: str, kernel_flags: Sequence[str]) -> bytes:
    """Presets: as it is shipped, and to step through in a folder of its own."""
    configure: dict[str, Any] = {
        "name": "default",
        "generator": "Ninja",
        "binaryDir": "${sourceDir}/build",
        "cacheVariables": {"CMAKE_BUILD_TYPE": "None", "CMAKE_EXPORT_COMPILE_COMMANDS": "ON"},
    }
    if toolchain:
        configure["toolchainFile"] = "${sourceDir}/" + toolchain
    kept = [flag for flag in kernel_flags if not flag.startswith("-O")]
    debug = {
        "name": "debug",
        "inherits": "default",
        "binaryDir": "${sourceDir}/build-debug",
        "cacheVariables": {"MLF_FLAGS": "-Og", "MLF_KERNEL_FLAGS": " ".join(["-Og", *kept])},
    }
    names = ("default", "debug")
    presets = {
        "version": 3,
        "cmakeMinimumRequired": {"major": 3, "minor": 21, "patch": 0},
        "configurePresets": [configure, debug],
        "buildPresets": [{"name": name, "configurePreset": name} for name in names],
    }
    return (json.dumps(presets, indent=2) + "\n").encode()
