# SPDX-License-Identifier: Apache-2.0
"""Reader of TensorFlow Lite models into the compiler's graph."""
