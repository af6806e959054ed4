# SPDX-License-Identifier: Apache-2.0
"""``bench mlperf``: the procedure of MLPerf Tiny on a board, by its official runner or by a client of our own."""
