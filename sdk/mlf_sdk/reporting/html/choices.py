# SPDX-License-Identifier: Apache-2.0
"""HTML page about a compilation: the kernels of each layer, and what they take."""

from __future__ import annotations

from mlf_sdk.pipeline.compile import CompiledModel
from mlf_sdk.reporting.html.page import render


def choices_page(compiled_model: CompiledModel) -> bytes:
    """Render the page, in UTF-8: one file without scripts or external resources."""
    options = dict(compiled_model.model.provenance.options)
    unit = options.get("tuned", "").partition(" on ")[0]
    return render(
        "choices.html.j2",
        model=compiled_model.model,
        choices=compiled_model.choices,
        options=options,
        unit=unit,
    )
