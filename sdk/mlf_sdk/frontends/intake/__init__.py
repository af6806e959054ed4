# SPDX-License-Identifier: Apache-2.0
"""Archives as files: bounded, safe intake of tar streams and folders, and JSON that nobody vouches for."""
