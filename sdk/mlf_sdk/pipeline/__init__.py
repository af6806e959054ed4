# SPDX-License-Identifier: Apache-2.0
"""The pipeline: load, plan, render, build, flash, open, execute, judge; commands are compositions of it."""
