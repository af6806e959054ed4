# SPDX-License-Identifier: Apache-2.0
"""Libraries that TVM's ``export_library`` writes: archives, shared libraries, objects."""
