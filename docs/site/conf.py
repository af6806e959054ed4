# SPDX-License-Identifier: Apache-2.0
"""Sphinx's configuration of the documentation site."""

from mlf_sdk.version import __version__

project = "mlf-sdk"
author = "the mlf-sdk authors"
copyright = f"{author}, Apache-2.0"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # as GitHub makes them: links to headings are checked
suppress_warnings = ["myst.header"]  # pages of functions begin their headings at the fourth level
exclude_patterns = ["_static", "_templates"]
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
html_theme = "furo"
html_title = f"mlf-sdk {version}"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html", "versions.html", "sidebar/search.html", "sidebar/scroll-start.html", "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}  # fmt: skip
html_css_files = ["style.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "source_edit_link": "",
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#7cb7f5", "color-brand-content": "#7cb7f5"},
}
