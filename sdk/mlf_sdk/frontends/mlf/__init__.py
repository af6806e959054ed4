# SPDX-License-Identifier: Apache-2.0
"""TVM's Model Library Format, versions 1 to 7: metadata, graphs, parameters, interface headers."""
