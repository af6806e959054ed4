# SPDX-License-Identifier: Apache-2.0
"""Safe intake of archives: bounded reading of tar streams, folders and untrusted JSON."""
