# SPDX-License-Identifier: Apache-2.0
"""Models: tensors, steps, code units; the representation that every stage shares."""
