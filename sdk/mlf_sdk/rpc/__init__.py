# SPDX-License-Identifier: Apache-2.0
"""Client side of the device protocol over any transport."""
