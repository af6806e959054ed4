# SPDX-License-Identifier: Apache-2.0
"""The report as one self-contained HTML page: figures to pictures, pictures to a page."""
