# SPDX-License-Identifier: Apache-2.0
"""The command line: arguments to one request, to one printed result and an exit code."""

STOPPED = 130  # exit code of a command that Ctrl-C ended, as shells count it
