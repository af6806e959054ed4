# SPDX-License-Identifier: Apache-2.0
"""Compiler of models: a graph of operators in, kernels in C that are made for its shapes and numbers out."""
