# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite models: compiled when they are loaded."""
