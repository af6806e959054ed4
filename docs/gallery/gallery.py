# SPDX-License-Identifier: Apache-2.0
"""Makes the gallery: known models on one board, each from its file to a verified run, as pages.

Usage: python docs/gallery/gallery.py FOLDER [--models PATH] [--jobs N] [--keep] [NAME...]

FOLDER gets index.html, a report of each model, and gallery.json; a model whose report is there is not run
again by the same compiler and runtime. Figures are shown beside those of the last release (figures.json);
``--keep`` writes that file. Models that are not below PATH are left out, and counted on the page.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import jinja2
import msgspec
import numpy as np

import mlf_sdk
from mlf_sdk.errors import MlfError
from mlf_sdk.frontends.compiled import compiler_digest
from mlf_sdk.pipeline.arguments import make_request
from mlf_sdk.pipeline.loading import load_analysed
from mlf_sdk.pipeline.stages import for_core
from mlf_sdk.planner.layout import lay_out
from mlf_sdk.reporting.html.collect import collect
from mlf_sdk.reporting.layout import capacity, counted, figure, number
from mlf_sdk.resources import data_dir

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LAST = HERE / "figures.json"
BOARD = "mps2-an386"
TEMPLATES = ROOT / "sdk" / "mlf_sdk" / "reporting" / "templates"
CASES = 2  # of a model without states


class GalleryModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model of the gallery: `docs/gallery/models.toml`.

    Attributes:
        file: below the folder of models, or in the project.
        source: repository that has it.
        vectors: npz file with inputs and outputs, beside ``file`` unless stated.
        tflm_instructions, tflm_arena_bytes: of TFLM with CMSIS-NN, counted on the same core.
    """

    name: str
    title: str
    use: str
    file: str
    source: str
    vectors: str = ""
    tflm_instructions: int | None = None
    tflm_arena_bytes: int | None = None


class GalleryFigures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Figures of a model; ``fault`` says why there are none. Sizes in bytes.

    Attributes:
        arena_bytes, rows_arena_bytes: as compiled by default, and for the least RAM.
        model_flash_bytes: kernels, tables and parameters.
        macs: of the model's file.
        chip: the smallest that holds the image; ``chip_ms``: estimated on it.
    """

    name: str
    verdict: str = ""
    evidence: str = ""
    fault: str = ""
    arena_bytes: int | None = None
    rows_arena_bytes: int | None = None
    model_flash_bytes: int | None = None
    instructions: int | None = None
    cycles: int | None = None
    macs: int | None = None
    chip: str = ""
    chip_ms: float | None = None
    digest: str = ""


def load_models() -> list[GalleryModel]:
    """Models of the list, in its order."""
    content = (HERE / "models.toml").read_bytes()
    return [msgspec.convert(row, GalleryModel) for row in msgspec.toml.decode(content)["models"]]


def find_file(model: GalleryModel, models: Path) -> Path | None:
    """File of a model; None: it is not here."""
    return next((p for p in (ROOT / model.file, models / model.file) if p.is_file()), None)


def vectors_of(model: GalleryModel, path: Path) -> Path | None:
    """File with inputs and outputs of a model; None: there is none."""
    names = (path.with_suffix(".npz"), path.with_name(path.stem.removesuffix("_int8") + "_public.npz"))
    found = [ROOT / model.vectors] if model.vectors else names
    return next((p for p in found if p.is_file()), None)


def arrays_of(path: Path, loaded: Any) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ANN401
    """Inputs and expected outputs of a model by name, of a few cases; all of one that keeps states."""
    stored = np.load(path)
    inputs = [stored[k] for k in stored.files if k.startswith("in::") or k == "input"]
    outputs = [stored[k] for k in stored.files if k.startswith("out::") or k == "tflm"]
    tensors = [loaded.tensors[i].name for i in loaded.inputs]
    if len(inputs) != len(tensors) or len(outputs) != len(loaded.outputs):
        return dict(stored.items()), dict(stored.items())
    count = None if loaded.states else CASES
    given = {n: x[:count] for n, x in zip(tensors, inputs, strict=True)}
    return given, {n: y[:count] for n, y in zip(loaded.output_names, outputs, strict=True)}


def measure(model: GalleryModel, models: Path, folder: Path) -> GalleryFigures:
    """Run a model, write its report, and return its figures; kept ones where nothing has changed."""
    path = find_file(model, models)
    if path is None:
        return GalleryFigures(name=model.name, fault="its file is not here")
    kept, page = folder / "kept" / f"{model.name}.json", folder / f"{model.name}.html"
    digest = digest_of(path)
    if kept.is_file() and page.is_file():
        found = msgspec.json.decode(kept.read_bytes(), type=GalleryFigures)
        if found.digest == digest:
            return found
    try:
        found = msgspec.structs.replace(run(model, path, page), digest=digest)
    except MlfError as error:
        return GalleryFigures(name=model.name, fault=" ".join(error.what.split()))
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(msgspec.json.encode(found))
    return found


def digest_of(path: Path) -> str:
    """Digest of a file, the compiler and the runtime."""
    found = hashlib.sha256(compiler_digest() + path.read_bytes())
    for folder in (data_dir("crt"), data_dir("board_templates")):
        for one in sorted(p for p in folder.rglob("*") if p.is_file()):
            found.update(one.read_bytes())
    return found.hexdigest()[:24]


def run(model: GalleryModel, path: Path, page: Path) -> GalleryFigures:
    """Build and run a model and write its report; errors as in `mlf_sdk.report`."""
    loaded = mlf_sdk.load(path)
    vectors = vectors_of(model, path)
    options: dict[str, Any] = {}
    if vectors is not None:
        options["inputs"], options["expect"] = arrays_of(vectors, loaded)
        options["rtol"] = 1e-5
    gathered = mlf_sdk.report(path, output=page, board=BOARD, timeout_s=900.0, **options)
    found = collect(gathered)
    time = gathered.chip.time if gathered.chip is not None else None
    is_file = path.suffix != ".tar"
    return GalleryFigures(
        name=model.name,
        verdict=found.verdict,
        evidence=found.evidence,
        arena_bytes=found.arena.size_bytes,
        rows_arena_bytes=rows_arena_bytes(path) if is_file else None,
        model_flash_bytes=found.model_flash_bytes,
        instructions=found.inference.instructions if found.inference is not None else None,
        cycles=found.profile.cycles.cycles if found.profile is not None and found.profile.cycles else None,
        macs=found.layers.macs if found.layers is not None else None,
        chip=gathered.chip.title if gathered.chip is not None and not gathered.chip.chosen else "",
        chip_ms=time.ms if time is not None else None,
    )


def rows_arena_bytes(path: Path) -> int:
    """Arena of a model that is compiled for the least RAM."""
    request = for_core(make_request(str(path), None, {"goal": "ram", "board": BOARD}))
    (model,) = load_analysed(request)
    return lay_out(model).arena_bytes


def measure_all(
    models: Sequence[GalleryModel], source: Path, folder: Path, jobs: int
) -> dict[str, GalleryFigures]:
    """Measure models in several processes."""
    found: dict[str, GalleryFigures] = {}
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        futures = {pool.submit(measure, model, source, folder): model for model in models}
        for future in as_completed(futures):
            one = found[futures[future].name] = future.result()
            print(f"{len(found)} of {len(models)} {one.name}: {one.verdict or one.fault}", flush=True)
    return found


def last_release() -> tuple[str, dict[str, GalleryFigures]]:
    """Version of the last release, and the figures of its models."""
    if not LAST.is_file():
        return "", {}
    kept = json.loads(LAST.read_text(encoding="utf-8"))
    return kept["version"], {row["name"]: msgspec.convert(row, GalleryFigures) for row in kept["models"]}


def change_text(now: float | None, before: float | None) -> str:
    """Change against the last release: ``-3.1%``; empty where it is none, or not known."""
    if not now or not before or abs(now / before - 1) < 5e-4:
        return ""
    return f"{now / before - 1:+.1%}"


def render_gallery(models: Sequence[GalleryModel], found: dict[str, GalleryFigures]) -> str:
    """Render the page of all models."""
    version, before = last_release()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([HERE, TEMPLATES]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, figure=figure, capacity=capacity, counted=counted)
    return environment.get_template("gallery.html.j2").render(
        rows=[
            (m, found[m.name], before.get(m.name))
            for m in models
            if m.name in found and not found[m.name].fault
        ],
        faults=[(m, found[m.name].fault) for m in models if m.name in found and found[m.name].fault],
        change=change_text,
        last=version,
        version=mlf_sdk.__version__,
        board=BOARD,
    )


def main() -> int:
    """Make the gallery."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", action="store_true")
    asked = parser.parse_args()
    models = [m for m in load_models() if not asked.names or m.name in asked.names]
    asked.folder.mkdir(parents=True, exist_ok=True)
    found = measure_all(models, asked.models, asked.folder, asked.jobs)
    (asked.folder / "index.html").write_text(render_gallery(models, found), encoding="utf-8")
    rows = [msgspec.to_builtins(found[m.name]) for m in models if not found[m.name].fault]
    content = json.dumps({"version": mlf_sdk.__version__, "models": rows}, indent=1) + "\n"
    (asked.folder / "gallery.json").write_text(content, encoding="utf-8")
    if asked.keep:
        LAST.write_text(content, encoding="utf-8")
    bad = [name for name, one in found.items() if one.verdict != "PASS"]
    print(f"{asked.folder / 'index.html'}: {len(rows)} models; without PASS: {', '.join(bad) or 'none'}")
    return 1 if any(found[name].verdict == "FAIL" for name in bad) else 0


if __name__ == "__main__":
    sys.exit(main())
