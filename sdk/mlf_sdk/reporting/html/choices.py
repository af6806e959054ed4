# SPDX-License-Identifier: Apache-2.0
"""HTML page about a compilation: the kernels of each layer, and what they take."""

from __future__ import annotations

from mlf_sdk.pipeline.compile import CompiledModel
from mlf_sdk.reporting.html.page import environment


def choices_page(found: CompiledModel) -> bytes:
    """Render the page, in UTF-8: one file without scripts or external resources."""
    text = (
        environment()
        .get_template("choices.html.j2")
        .render(model=found.model, choices=found.choices, options=dict(found.model.provenance.options))
    )
    return (text.rstrip() + "\n").encode()
