# SPDX-License-Identifier: Apache-2.0
"""The wire protocol (``crt/PROTOCOL.md``): frames, sessions and bulk transfer over any byte stream."""
