# SPDX-License-Identifier: Apache-2.0
"""TVM as a source of kernels: Relax modules to operators whose C code TVM generates."""
