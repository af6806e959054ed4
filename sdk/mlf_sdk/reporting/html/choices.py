# SPDX-License-Identifier: Apache-2.0
"""HTML page about a compilation: the kernels of each layer, and what they take."""

from __future__ import annotations

from mlf_sdk.pipeline.compile import CompiledModel
from mlf_sdk.reporting.html.page import environment


def choices_page(found: CompiledModel) -> bytes:
    """Render the page, in UTF-8: one file without scripts or external resources."""
    options = dict(found.model.provenance.options)
    values = {"options": options, "unit": options.get("tuned", "").partition(" ")[0]}
    page = environment().get_template("choices.html.j2")
    text = page.render(model=found.model, choices=found.choices, **values)
    return (text.rstrip() + "\n").encode()
