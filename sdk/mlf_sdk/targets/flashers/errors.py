# SPDX-License-Identifier: Apache-2.0
"""Errors of flashing."""

from __future__ import annotations

from mlf_sdk.errors import InputError, TargetError, ToolError


class NoRunnerError(InputError):
    """Nothing says how this board is flashed, or what was chosen does not exist."""


class RunnerMissingError(ToolError):
    """The runner's program is not installed."""


class NoProbeError(TargetError):
    """The runner found no probe, debug server, port, or volume of the board."""


class RunnerFailedError(ToolError):
    """The runner failed, was late, or did not say that it succeeded."""


class FlashNotProvenError(TargetError):
    """The runner claims success, but the device does not answer with the new image's models."""
