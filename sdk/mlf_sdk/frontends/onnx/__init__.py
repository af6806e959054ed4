# SPDX-License-Identifier: Apache-2.0
"""ONNX models: compiled when they are loaded."""
