# SPDX-License-Identifier: Apache-2.0
"""Entry point of ``python -m mlf_sdk``."""

from mlf_sdk.cli.start import run_console_script

run_console_script()
