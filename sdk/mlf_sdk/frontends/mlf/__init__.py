# SPDX-License-Identifier: Apache-2.0
"""TVM's Model Library Format, versions 1 to 7: tar archives, compressed or not, and unpacked folders."""
