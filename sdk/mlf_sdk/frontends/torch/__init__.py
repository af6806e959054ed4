# SPDX-License-Identifier: Apache-2.0
"""Programs of PyTorch, exported and compiled when they are loaded; its pickles are refused."""
