# SPDX-License-Identifier: Apache-2.0
"""Inference across layers by rows: operators of a region hand rows on in rings instead of whole tensors.

`needs` says which rows of its inputs a row of an operator's output is made from, `pull` simulates a region
and sizes its rings, `memory` gives the RAM of a region, and `search` chooses the regions of a graph.
"""
