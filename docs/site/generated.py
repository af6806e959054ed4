# SPDX-License-Identifier: Apache-2.0
"""What the site has beside the project's pages: pictures, and the figures of known models that the last gallery kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from pictures import ROOT, write_pictures

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_HEAD = """# Known models

```{{raw}} html
<style>
.content {{ width: auto; min-width: 0; max-width: 68rem; padding: 0 1.5rem; }}
article table.docutils {{ font-size: .72rem; }}
article table.docutils :is(td, th) {{ white-space: nowrap; padding: .3rem .4rem; }}
.main {{ min-width: 0; }}
article table.docutils :is(td, th):first-child {{ white-space: normal; min-width: 9rem; position: sticky; left: 0; background: var(--color-background-primary); }}
</style>
```

Each was compiled for the emulated mps2-an386 (Cortex-M4F), run and verified; figures of {version}. RAM is the arena; *by rows*:
compiled with [`--for ram`](docs/rows.md). TFLM: with CMSIS-NN, counted on the same core; empty where it was not. Milliseconds are
[estimates](docs/estimates.md) on the smallest chip that holds the image. `make gallery` runs them again and makes a report of each.

| model | RAM | by rows | TFLM's | flash | instructions | TFLM's | times | smallest chip | ~ms there | verdict |
|---|--:|--:|--:|--:|--:|--:|--:|---|--:|---|
"""


def write_generated(source: Path) -> None:
    """Write pictures and pages below the folder of the staged pages."""
    write_pictures(source / "pictures")
    (source / "models.md").write_text(models_page())


def models_page() -> str:
    """Markdown of the models, in the gallery's order; those that did not run say why."""
    gallery = ROOT / "docs" / "gallery"
    kept = json.loads((gallery / "figures.json").read_text())
    models = tomllib.loads((gallery / "models.toml").read_text())["models"]
    figures = {row["name"]: row for row in kept["models"]}
    return _HEAD.format(version=kept["version"]) + "".join(
        f"| {' | '.join(_cells(model, figures[model['name']]))} |\n"
        for model in models
        if model["name"] in figures
    )


def _cells(model: dict[str, str | int], now: dict[str, str | int | float | None]) -> Iterator[str]:
    theirs, here = model.get("tflm_instructions"), now.get("instructions")
    yield f"**{model['title']}**, {model['use']}"
    yield _number(now.get("arena_bytes"))
    yield _number(now.get("rows_arena_bytes"))
    yield _number(model.get("tflm_arena_bytes"))
    yield _number(now.get("model_flash_bytes"))
    yield _number(here)
    yield _number(theirs)
    yield f"{theirs / here:.1f}" if isinstance(theirs, int) and isinstance(here, int) else ""
    yield str(now.get("chip") or "").rpartition(" ")[2]  # without the vendor
    yield f"{now['chip_ms']:.3g}" if now.get("chip_ms") else ""
    yield str(now.get("fault") or now["verdict"])


def _number(value: str | float | None) -> str:
    return f"{value:,}" if isinstance(value, int) else ""
