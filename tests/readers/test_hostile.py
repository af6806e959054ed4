# SPDX-License-Identifier: Apache-2.0
"""Every hostile archive ends in one clear InputError, soon and in little memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from archives import tar_bytes
from effort import Effort
from hostile import GOOD, HOSTILE, SAYS
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.mlf.archive import load_mlf

MAX_CALLS = 3_000_000  # 0.8 million for the largest archive; what is quadratic takes billions
MAX_BYTES = 96 << 20


def test_the_table_is_large_and_described() -> None:
    assert len(HOSTILE) >= 60
    assert set(HOSTILE) == set(SAYS)
    assert len(set(HOSTILE.values())) == len(HOSTILE)


def test_the_archive_that_is_broken_is_good(tmp_path: Path) -> None:
    path = tmp_path / "good.tar"
    path.write_bytes(tar_bytes(GOOD))
    assert load_mlf(path).modules[0].graph is not None


@pytest.mark.parametrize("name", HOSTILE)
def test_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "evil.tar"
    path.write_bytes(HOSTILE[name])
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught, Effort() as effort:
            load_mlf(path)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    text = str(caught.value)
    assert caught.value.exit_code == 2
    assert SAYS[name] in text
    assert str(path) in text
    assert len(text) < 8000
    assert "".join(text.split("\n")).isprintable()
    assert 0 < effort.calls < MAX_CALLS
    assert peak_bytes < MAX_BYTES
    assert [entry.name for entry in tmp_path.iterdir()] == ["evil.tar"]
