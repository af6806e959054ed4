# SPDX-License-Identifier: Apache-2.0
"""The frontend of Glow's ahead-of-time bundles."""

from __future__ import annotations

from pathlib import Path

from mlf_sdk.errors import InputError, ModuleChoiceError
from mlf_sdk.frontends.glow.bundle import Entry
from mlf_sdk.frontends.glow.files import find_bundles, read_files
from mlf_sdk.frontends.glow.load import build_model
from mlf_sdk.frontends.glow.read import Bundle, read_bundle
from mlf_sdk.frontends.registry import StatedFrontend
from mlf_sdk.frontends.stated import Stated
from mlf_sdk.ir.model import Model


class GlowFrontend(StatedFrontend):
    """Bundles: a folder, the object file (or archive of objects), or the header."""

    name = "glow"
    title = "Glow's bundle"

    def recognise(self, path: Path) -> bool:
        """Look for the header, or for an object with a configuration."""
        try:
            return bool(find_bundles(path))
        except InputError:
            return False

    def load_stated(self, path: Path, module: str | None, stated: Stated) -> Model:
        """Load one entry, with the directions and types that the user states."""
        bundle, entry = _choose(path, module)
        return build_model(bundle, entry, stated)

    def files(self, path: Path) -> tuple[Path, ...]:
        """Header, code and weights of the bundle that a file belongs to."""
        result = [one for paths in find_bundles(path) for one in (paths.header, paths.code, *paths.weights)]
        return tuple(sorted({path, *(one for one in result if one is not None)}))

    def modules(self, path: Path) -> tuple[str, ...]:
        """Names of the bundles in a folder, or of the entries of a single bundle."""
        every = find_bundles(path)
        if len(every) > 1:
            return tuple(paths.name for paths in every)
        return tuple(entry.name for entry in read_bundle(read_files(every[0], path)).entries)


def _choose(path: Path, module: str | None) -> tuple[Bundle, Entry]:
    """The bundle and the entry that ``module`` names, or the only ones."""
    every = find_bundles(path)
    if len(every) > 1:
        names = [paths.name for paths in every]
        if module not in names:
            raise ModuleChoiceError("the folder holds several bundles", where=str(path), names=names)
        every, module = (every[names.index(module)],), None
    bundle = read_bundle(read_files(every[0], path))
    names = [entry.name for entry in bundle.entries]
    if module is None and len(names) == 1:
        module = names[0]
    if module not in names:
        what = "the bundle has several entries" if module is None else f"there is no entry '{module}'"
        raise ModuleChoiceError(what, where=str(path), names=names)
    return bundle, bundle.entries[names.index(module)]
