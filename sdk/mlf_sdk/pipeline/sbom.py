# SPDX-License-Identifier: Apache-2.0
"""Software bill of materials (SPDX) of a project: contents, sources and tools."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from mlf_sdk.codegen.lock import Lock, LockModel, read_lock
from mlf_sdk.codegen.provenance import provenance_of
from mlf_sdk.errors import InputError, command_text
from mlf_sdk.pipeline.arguments import Source
from mlf_sdk.pipeline.firmware import load_firmware
from mlf_sdk.targets.registry import project_target
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.tools.spdx import (
    DOCUMENT,
    EPOCH,
    File,
    Package,
    Relationship,
    encode_document,
    make_file,
    make_package,
    relate,
)
from mlf_sdk.version import __version__

_APACHE = "Apache-2.0"
_BUILD = "build"
_IMAGES = (".elf", ".bin", ".hex", ".exe")
_TOOL = re.compile(r"(GCC|Arm Compiler|.*clang|LLD|Linker)\b.*? v?(\d+\.\d+(?:\.\d+)?)")
_ZEPHYR_VERSION = re.compile(r'KERNEL_VERSION_STRING\s+"([^"]{1,40})"')
_PACK_VERSION = re.compile(r'<release version="([0-9][^"]{0,30})"')
_MONOCYPHER = "BSD-2-Clause OR CC0-1.0"
_MONOCYPHER_VERSION = re.compile(r"Monocypher version ([0-9][^\s]{0,30})")
_MODULE = re.compile(r'^"cmsis-nn":"([^"]+)"', re.MULTILINE)  # in Zephyr's list of modules
_CHECKOUT = re.compile(r"^MLF_CMSIS_NN:\w+=(.+)$", re.MULTILINE)
_MOST_FILES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sbom:
    """A bill of materials.

    Attributes:
        document: SPDX 2.3 as JSON.
    """

    document: bytes
    packages: tuple[Package, ...]
    files: tuple[File, ...]


@dataclass(slots=True)
class _Bill:
    packages: list[Package] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    relationships: list[Relationship] = field(default_factory=list)

    def add(self, package: Package) -> Package:
        """Take a package in, once."""
        known = next((p for p in self.packages if p.spdx_id == package.spdx_id), None)
        if known is None:
            self.packages.append(package)
        return known or package

    def relate(self, element: Package | File | str, kind: str, related: Package | File) -> None:
        self.relationships.append(relate(element, kind, related))


def make_sbom(folder: Source, *, created: datetime | None = None) -> Sbom:
    """Make the software bill of materials (SPDX) of a project, and of its image if it is built.

    Args:
        folder: of the project.
        created: the document's time; None: 1970, so that the same project gives the same document.

    Raises:
        InputError: no project, or its image is one of another state of the project.
    """
    path = Path(folder)
    lock = read_lock(path)
    bill = _Bill()
    # What came in an archive may name a licence: nobody of the SDK has looked at it.
    contents = {
        name: make_file(name, (path / name).read_bytes(), conclude=not name.startswith("model/"))
        for name in _project_files(path)
    }
    bill.files += contents.values()
    name = "-".join([*(m.c_name for m in lock.models), lock.board])
    project = bill.add(
        make_package(re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:120], "SOURCE", files=list(contents.values()))
    )
    bill.relate(DOCUMENT, "DESCRIBES", project)
    for file in contents.values():
        bill.relate(project, "CONTAINS", file)
    sdk = bill.add(make_package("mlf-sdk", "APPLICATION", version=lock.sdk_version, licence=_APACHE))
    bill.relate(sdk, "BUILD_TOOL_OF", project)
    _add_runtime(bill, lock, project, contents)
    for model in lock.models:
        _add_model(bill, model, project, contents)
    _add_libraries(bill, path, lock, project)
    _add_image(bill, path, lock, project)
    document = encode_document(
        f"mlf-sdk-{project.name}",
        f"Tool: mlf-sdk-{__version__}",
        created or EPOCH,
        bill.packages,
        bill.files,
        bill.relationships,
    )
    return Sbom(document=document, packages=tuple(bill.packages), files=tuple(bill.files))


def _project_files(folder: Path) -> Iterator[str]:
    """All files but those of the build, by path; links and hidden files are left out."""
    count = 0
    for where, folders, names in os.walk(folder):
        here = Path(where)
        top = here == folder
        folders[:] = sorted(f for f in folders if not f.startswith(".") and not (top and f == _BUILD))
        for name in sorted(names):
            path = here / name
            if name.startswith(".") or path.is_symlink() or not path.is_file():
                continue
            count += 1
            if count > _MOST_FILES:
                raise InputError(f"the project has more than {_MOST_FILES:,} files", where=str(folder))
            yield path.relative_to(folder).as_posix()


def _add_runtime(bill: _Bill, lock: Lock, project: Package, contents: dict[str, File]) -> None:
    files = [file for name, file in contents.items() if name.startswith("crt/")]
    runtime = bill.add(
        make_package("mlf-sdk runtime", "LIBRARY", version=lock.sdk_version, licence=_APACHE, files=files)
    )
    bill.relate(project, "CONTAINS", runtime)
    for file in files:
        bill.relate(runtime, "CONTAINS", file)


def _add_model(bill: _Bill, model: LockModel, project: Package, contents: dict[str, File]) -> None:
    """Add the archive, the files extracted from it, and the compiler that made it."""
    archive = bill.add(
        make_package(
            model.name,
            "ARCHIVE",
            version=model.format_text,
            file_name=model.archive,
            sha256=model.archive_sha256,
            comment=f"a compiled model ({model.format_text})",
        )
    )
    bill.relate(project, "GENERATED_FROM", archive)
    for name, file in contents.items():
        if name.startswith(f"model/{model.c_name}/"):
            bill.relate(file, "GENERATED_FROM", archive)
    version = model.compiler_version
    comment = "" if version else "the archive does not state its version"
    compiler = bill.add(
        make_package(model.compiler, "APPLICATION", version=version, licence=_APACHE, comment=comment)
    )
    bill.relate(compiler, "BUILD_TOOL_OF", archive)


def _add_libraries(bill: _Bill, folder: Path, lock: Lock, project: Package) -> None:
    if lock.options.cmsis_nn is not None:
        version = _first(sorted(_cmsis_nn(folder, lock.options.cmsis_nn).glob("*.pdsc")), _PACK_VERSION)
        library = bill.add(make_package("CMSIS-NN", "LIBRARY", version=version, licence=_APACHE))
        bill.relate(project, "DEPENDS_ON", library)
    if lock.options.trust or lock.options.session_keys:
        library = bill.add(_signatures(lock.options.monocypher))
        bill.relate(project, "DEPENDS_ON", library)
    if lock.zephyr is not None:
        headers = sorted((folder / _BUILD / "zephyr" / "include" / "generated").rglob("version.h"))
        version = _first(headers, _ZEPHYR_VERSION) or lock.zephyr.series
        zephyr = bill.add(make_package("Zephyr", "OPERATING-SYSTEM", version=version, licence=_APACHE))
        bill.relate(project, "DEPENDS_ON", zephyr)


def _signatures(monocypher: str | None) -> Package:
    """Return the library that verifies signatures."""
    if monocypher is None:
        comment = "that of the machine on which the project is built"
        return make_package("OpenSSL", "LIBRARY", licence=_APACHE, comment=comment)
    header = Path(monocypher) / "src" / "monocypher.h"
    version = _first([header] if header.is_file() else [], _MONOCYPHER_VERSION)
    comment = "" if version else "its header does not state the version"
    return make_package("Monocypher", "LIBRARY", version=version, licence=_MONOCYPHER, comment=comment)


def _cmsis_nn(folder: Path, stated: str) -> Path:
    """Return the folder of CMSIS-NN: the stated one, or what a Zephyr build used, which its project names."""
    if Path(stated).is_absolute():
        return Path(stated)
    build = folder / _BUILD
    for path, pattern in ((build / "zephyr_modules.txt", _MODULE), (build / "CMakeCache.txt", _CHECKOUT)):
        if result := _first([path] if path.is_file() else [], pattern):
            return Path(result)
    return build  # of which it is no part


def _first(paths: list[Path], pattern: re.Pattern[str]) -> str:
    for path in paths:
        match = pattern.search(path.read_text(encoding="utf-8", errors="replace"))
        if match:
            return match[1]
    return ""


def _add_image(bill: _Bill, folder: Path, lock: Lock, project: Package) -> None:
    """Add the built image files, and the compilers named in them."""
    if lock.options.app == "library":
        return
    elf = project_target(folder, lock, TargetChoice()).image(folder)
    if not elf.is_file():
        return
    firmware = load_firmware(elf)
    if provenance_of(lock) not in firmware.provenances:
        raise InputError(
            "the image was built from another state of the project",
            where=str(elf),
            hint=f"Build it again: {command_text('build', folder)}",
        )
    version = f"build id {firmware.build_id}" if firmware.build_id else ""
    images = [p for p in sorted(elf.parent.glob(f"{elf.stem}.*")) if p.suffix in _IMAGES and p.is_file()]
    files = [make_file(p.relative_to(folder).as_posix(), p.read_bytes()) for p in images]
    bill.files += files
    image = bill.add(make_package(f"{project.name}-firmware", "FIRMWARE", version=version, files=files))
    bill.relate(DOCUMENT, "DESCRIBES", image)
    bill.relate(image, "GENERATED_FROM", project)
    for file in files:
        bill.relate(image, "CONTAINS", file)
    for comment in firmware.toolchain:
        known = _TOOL.match(comment.replace(":", " ", 1))
        tool = bill.add(
            make_package(
                (known[1] if known else comment)[:100],
                "APPLICATION",
                version=known[2] if known else "",
                comment=comment,
            )
        )
        bill.relate(tool, "BUILD_TOOL_OF", image)
