# SPDX-License-Identifier: Apache-2.0
"""``bench mlperf``: the procedure of MLPerf Tiny, by its official runner or by a client of our own."""
