# SPDX-License-Identifier: Apache-2.0
"""Talk to a device that runs models: one session over any byte stream (see ``crt/PROTOCOL.md``)."""

from mlf_sdk.rpc.deadline import Deadline
from mlf_sdk.rpc.errors import DeviceError, DeviceResetError, NoAnswerError
from mlf_sdk.rpc.protocol import Capability, Direction, Opcode, Status
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
    "LoopbackTransport",
    "ModelInfo",
    "NoAnswerError",
    "Opcode",
    "PipeTransport",
    "RunResult",
    "Session",
    "SocketTransport",
    "Stats",
    "Status",
    "TensorInfo",
    "Timeouts",
    "Transport",
]
