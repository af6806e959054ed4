# SPDX-License-Identifier: Apache-2.0
"""Errors of flashing."""

from __future__ import annotations

from mlf_sdk.errors import InputError, TargetError, ToolError


class NoRunnerError(InputError):
    """No runner is known for this board, or the chosen one does not exist."""


class RunnerMissingError(ToolError):
    """The runner's program is not installed."""


class NoProbeError(TargetError):
    """The runner found no probe, debug server, port, or volume of the board."""


class RunnerFailedError(ToolError):
    """Runner failed, timed out, or did not report success."""


class FlashNotProvenError(TargetError):
    """The runner claims success, but the device does not answer with the new image's models."""
