# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from dynamic_helpers import DIGITS
from mlf_sdk.frontends.mlf.content import NamedTensor
from mlf_sdk.frontends.mlf.params import write_params


@pytest.fixture(scope="session")
def scaled_params(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parameters of digits, halved: outputs differ from the archive's."""
    tensors = []
    for tensor in mlf_sdk.load(DIGITS).constants:
        array = np.frombuffer(tensor.data or b"", dtype=tensor.dtype.numpy)
        half = array * array.dtype.type(0.5) if tensor.dtype.name == "float32" else array
        data = half.astype(array.dtype).tobytes()
        tensors.append(NamedTensor(name=tensor.name, dtype=tensor.dtype, shape=tensor.shape, data=data))
    path = tmp_path_factory.mktemp("params") / "half.params"
    path.write_bytes(write_params(tensors))
    return path
