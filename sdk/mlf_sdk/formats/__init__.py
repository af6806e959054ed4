# SPDX-License-Identifier: Apache-2.0
"""Bytes to raw structures and back: archives, metadata, graphs, parameters, C sources, objects."""
