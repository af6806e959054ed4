# SPDX-License-Identifier: Apache-2.0
"""The one picture of a model that everything above uses."""
