# SPDX-License-Identifier: Apache-2.0
"""Relay text of an archive: signatures, and the body of the main function."""
