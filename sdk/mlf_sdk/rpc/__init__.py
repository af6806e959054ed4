# SPDX-License-Identifier: Apache-2.0
"""Talk to a device that runs models: one session over any byte stream (see ``crt/PROTOCOL.md``)."""

from mlf_sdk.rpc.deadline import Deadline
from mlf_sdk.rpc.errors import (
    DeviceError,
    DeviceResetError,
    NoAnswerError,
    PortBusyError,
    PortError,
    PortMissingError,
    PortVanishedError,
)
from mlf_sdk.rpc.faultline import Faults, FaultTransport
from mlf_sdk.rpc.protocol import Capability, Direction, Opcode, Status
from mlf_sdk.rpc.serialport import open_port
from mlf_sdk.rpc.session import Session, Timeouts
from mlf_sdk.rpc.target import DeviceInfo, ModelInfo, RunResult, Stats, TensorInfo
from mlf_sdk.rpc.transport import LoopbackTransport, PipeTransport, SocketTransport, Transport

__all__ = [
    "Capability",
    "Deadline",
    "DeviceError",
    "DeviceInfo",
    "DeviceResetError",
    "Direction",
    "FaultTransport",
    "Faults",
    "LoopbackTransport",
    "ModelInfo",
    "NoAnswerError",
    "Opcode",
    "PipeTransport",
    "PortBusyError",
    "PortError",
    "PortMissingError",
    "PortVanishedError",
    "RunResult",
    "Session",
    "SocketTransport",
    "Stats",
    "Status",
    "TensorInfo",
    "Timeouts",
    "Transport",
    "open_port",
]
