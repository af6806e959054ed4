# SPDX-License-Identifier: Apache-2.0
"""Arrays from npz files, matched to a model's inputs and outputs."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from archives import Spec, build, write
from mlf_sdk.codegen.lock import LockModel, LockTensor
from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.judge.data import (
    accuracy,
    class_of,
    fit_array,
    match_inputs,
    match_reference,
    write_npz,
)
from mlf_sdk.pipeline.api import load
from mlf_sdk.tools.arrays import Array, read_npz
from planning import plan_project

F8 = np.arange(8, dtype=np.float32)


def tensor(name: str = "x", dtype: str = "float32", shape: tuple[int, ...] = (1, 8)) -> LockTensor:
    size = int(np.prod(shape, dtype=int)) * np.dtype(dtype).itemsize
    return LockTensor(name=name, dtype=dtype, shape=shape, size_bytes=size)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LockModel:
    """Two inputs and two outputs."""
    path = write(build(Spec()), tmp_path_factory.mktemp("data") / "tiny.tar")
    found = plan_project([load(path)], board="host").lock.models[0]
    return msgspec.structs.replace(
        found,
        inputs=(tensor("image:0"), tensor("mask", "int8", (4,))),
        outputs=(tensor("logits", shape=(3,)), tensor("1", "int8", (2,))),
    )


# ---- files ----


def test_round_trip(tmp_path: Path) -> None:
    arrays = {"image:0": F8, "größe/x": np.int8([1, 2]), "0": np.float64(3.5).reshape(())}
    write_npz(tmp_path / "out.npz", arrays)
    found = read_npz(tmp_path / "out.npz")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert [path.name for path in tmp_path.iterdir()] == ["out.npz"]


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_npz(tmp_path / "out.npz", {"a": F8})

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ToolError, match="the disk is full"):
        write_npz(tmp_path / "out.npz", {"a": F8 * 2})
    monkeypatch.undo()
    np.testing.assert_array_equal(read_npz(tmp_path / "out.npz")["a"], F8)
    assert [path.name for path in tmp_path.iterdir()] == ["out.npz"]


def test_write_into_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't write the file"):
        write_npz(tmp_path / "missing" / "out.npz", {"a": F8})


class Boom:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("pwned"),))


def test_pickles_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("evil.npz", x=np.array([Boom()], object))
    with pytest.raises(InputError, match="'x' holds Python objects, not numbers") as caught:
        read_npz(Path("evil.npz"))
    assert "pickle" not in str(caught.value)
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    "data", [b"", b"no zip", b"\x89PNG\r\n\x1a\n", b"PK\x03\x04" + bytes(50), b"\x93NUMPY"], ids=repr
)
def test_files_that_are_no_npz(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bad.npz").write_bytes(data)
    with pytest.raises(InputError, match="can't read the arrays") as caught:
        read_npz(tmp_path / "bad.npz")
    assert caught.value.where == str(tmp_path / "bad.npz")
    assert "numpy.savez" in caught.value.hint
    assert "pickle" not in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't read the arrays: No such file or directory\n"):
        read_npz(tmp_path / "missing.npz")


def test_one_array_is_no_npz(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", F8)
    with pytest.raises(InputError, match="holds one array without its name"):
        read_npz(tmp_path / "one.npy")


def test_damaged_member(tmp_path: Path) -> None:
    np.savez(tmp_path / "cut.npz", x=np.arange(1000))
    with zipfile.ZipFile(tmp_path / "cut.npz") as file:
        data = file.read("x.npy")
    with zipfile.ZipFile(tmp_path / "cut.npz", "w") as file:
        file.writestr("x.npy", data[:-100])
    with pytest.raises(InputError, match="can't read the arrays"):
        read_npz(tmp_path / "cut.npz")
    whole = bytearray((tmp_path / "cut.npz").read_bytes())
    whole[200] ^= 0xFF
    (tmp_path / "flipped.npz").write_bytes(whole)
    with pytest.raises(InputError, match="can't read the arrays"):
        read_npz(tmp_path / "flipped.npz")


# ---- one array ----


@pytest.mark.parametrize(
    ("given", "shape", "fitted"),
    [
        ((1, 8), (1, 8), (1, 1, 8)),  # one inference
        ((5, 1, 8), (1, 8), (5, 1, 8)),  # a batch in front
        ((5, 8), (1, 8), (5, 1, 8)),  # a batch in the place of 1
        ((0, 8), (1, 8), (0, 1, 8)),
        ((8,), (8,), (1, 8)),
        ((5, 8), (8,), (5, 8)),
        ((1,), (1,), (1, 1)),
        ((5,), (1,), (5, 1)),
        ((5, 1), (1,), (5, 1)),
        ((), (), (1,)),
        ((5,), (), (5,)),
        ((2, 3), (2, 3), (1, 2, 3)),
        ((1, 1), (1, 1), (1, 1, 1)),
    ],
)
def test_batches(given: tuple[int, ...], shape: tuple[int, ...], fitted: tuple[int, ...]) -> None:
    values = np.arange(np.prod(given, dtype=int), dtype=np.float32).reshape(given)
    found = fit_array(values, tensor(shape=shape), "here")
    assert found.shape == fitted
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found.reshape(-1), values.reshape(-1))


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ((8,), (1, 8)),
        ((1, 9), (1, 8)),
        ((8, 1), (1, 8)),
        ((2, 2, 8), (1, 8)),
        ((), (8,)),
        ((5, 8), (2, 8)),
        ((1, 1, 1, 8), (1, 8)),
        ((1, 2), ()),
    ],
)
def test_shapes_that_do_not_fit(given: tuple[int, ...], shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="does not fit 'x', which is") as caught:
        fit_array(np.zeros(given, np.float32), tensor(shape=shape), "here")
    assert str(list(given)) in caught.value.what
    assert caught.value.where == "here"


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.arange(8), "int8"),
        (np.arange(8, dtype=np.uint8), "int8"),
        (np.array([-128, 127] * 4, np.int64), "int8"),
        (np.array([False, True] * 4), "int8"),
        (np.array([0, 1] * 4), "bool"),
        (np.arange(8, dtype=">i4"), "int32"),
        (np.arange(8, dtype=np.int64), "float32"),
        (np.linspace(0, 1, 8), "float32"),
        (np.array([np.nan, np.inf] * 4), "float32"),
        (np.full(8, 2**24), "float32"),
        (np.array([2**63 - 1] * 8), "int64"),
    ],
)
def test_types_are_converted_where_values_allow(values: np.ndarray[Any, Any], dtype: str) -> None:
    found = fit_array(values, tensor(dtype=dtype, shape=(8,)), "here")
    assert found.dtype == np.dtype(dtype).newbyteorder("<")
    np.testing.assert_array_equal(found[0].astype(np.float64), values.astype(dtype).astype(np.float64))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.full(8, 300), "int8"),
        (np.full(8, -1), "uint8"),
        (np.full(8, 200, np.uint8), "int8"),
        (np.full(8, -1, np.int8), "uint8"),
        (np.full(8, -1, np.int64), "uint64"),
        (np.full(8, 2**63, np.uint64), "int64"),
        (np.full(8, 0.5), "int8"),
        (np.arange(8.0), "int8"),
        (np.zeros(8, np.float32), "bool"),
        (np.full(8, 2), "bool"),
        (np.full(8, 2**40), "int32"),
        (np.full(8, 3.0e38), "int32"),
    ],
)
def test_values_that_an_integer_can_not_hold(values: np.ndarray[Any, Any], dtype: str) -> None:
    with pytest.raises(InputError, match="do not fit 'x'") as caught:
        fit_array(values, tensor(dtype=dtype, shape=(8,)), "here")
    assert caught.value.where == "here"
    assert "Quantise" in caught.value.hint or dtype == "bool"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_no_integer(value: float) -> None:
    with pytest.raises(InputError, match="do not fit"):
        fit_array(np.full(8, value), tensor(dtype="int8", shape=(8,)), "here")


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.full(8, 1e300), "float32"),
        (np.full(8, -1e300), "float32"),
        (np.full(8, 2**24 + 1), "float32"),
        (np.full(8, 4097, np.int16), "float16"),
    ],
)
def test_values_that_a_float_can_not_hold(values: np.ndarray[Any, Any], dtype: str) -> None:
    with pytest.raises(InputError, match="do not fit 'x'"):
        fit_array(values, tensor(dtype=dtype, shape=(8,)), "here")


@pytest.mark.parametrize(
    "values",
    [
        np.array(["a"] * 8),
        np.array(["1"] * 8),
        np.full(8, 1 + 2j),
        np.zeros(8, "datetime64[s]"),
        np.zeros(8, "V4"),
    ],
    ids=lambda values: values.dtype.name,
)
def test_what_is_no_real_number(model: LockModel, values: np.ndarray[Any, Any]) -> None:
    with pytest.raises(InputError, match="are not real numbers") as caught:
        fit_array(values, tensor(shape=(8,)), "here")
    assert caught.value.where == "here"
    with pytest.raises(InputError, match="are not real numbers") as caught:
        match_reference(model, {"label": values}, 8, "out.npz")
    assert caught.value.where == "out.npz: label"


def test_strided_views_become_contiguous() -> None:
    values = np.arange(32, dtype=np.float32).reshape(8, 4)[:, ::2].T
    found = fit_array(values, tensor(shape=(2, 8)), "here")
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found[0], values)


# ---- inputs ----


def test_inputs_by_name_or_number(model: LockModel) -> None:
    mask = np.int8([1, 2, 3, 4])
    for arrays in ({"image:0": F8.reshape(1, 8), "mask": mask}, {"0": F8.reshape(1, 8), "1": mask}):
        batch = match_inputs(model, arrays, "in.npz")
        assert batch.count == 1
        np.testing.assert_array_equal(batch.inputs(0)[0][0], F8)
        np.testing.assert_array_equal(batch.inputs(0)[1], mask)


def test_names_win_over_numbers_and_others_are_ignored(model: LockModel) -> None:
    arrays = {"image:0": F8.reshape(1, 8), "0": -F8.reshape(1, 8), "mask": np.int8([1, 2, 3, 4]), "other": F8}
    np.testing.assert_array_equal(match_inputs(model, arrays, "in.npz").inputs(0)[0][0], F8)


def test_batch_of_inputs(model: LockModel) -> None:
    images, masks = np.arange(24, dtype=np.float32).reshape(3, 8), np.zeros((3, 4), np.int8)
    batch = match_inputs(model, {"image:0": images, "mask": masks}, "in.npz")
    assert batch.count == 3
    np.testing.assert_array_equal(batch.inputs(2)[0][0], images[2])


def test_missing_input(model: LockModel) -> None:
    with pytest.raises(InputError, match="no array for the input 'mask'") as caught:
        match_inputs(model, {"image:0": F8.reshape(1, 8), "label": F8}, "in.npz")
    assert caught.value.where == "in.npz"
    assert caught.value.hint == "Its inputs are: 'image:0', 'mask'; the file has: image:0, label."
    with pytest.raises(InputError) as caught:
        match_inputs(model, {}, "in.npz")
    assert caught.value.hint.endswith("the file has: nothing.")


def test_inputs_of_different_counts(model: LockModel) -> None:
    with pytest.raises(InputError, match=r"different numbers of inferences: \[2, 3\]"):
        match_inputs(model, {"0": np.zeros((3, 8), np.float32), "1": np.zeros((2, 4), np.int8)}, "in.npz")


def test_place_of_a_wrong_array(model: LockModel) -> None:
    with pytest.raises(InputError) as caught:
        match_inputs(model, {"0": np.zeros((3, 8), np.float32), "mask": np.zeros(5, np.int8)}, "in.npz")
    assert caught.value.where == "in.npz: mask"


# ---- references ----


def test_reference_by_name_or_number(model: LockModel) -> None:
    logits, other = np.zeros((2, 3), np.float32), np.ones((2, 2), np.int8)
    found = match_reference(model, {"logits": logits, "1": other}, 2, "out.npz")
    assert list(found.outputs) == ["logits", "1"]
    assert found.labels is None
    np.testing.assert_array_equal(found.outputs["1"], other)
    assert list(match_reference(model, {"0": logits}, 2, "out.npz").outputs) == ["logits"]


def test_labels_alone(model: LockModel) -> None:
    found = match_reference(model, {"label": np.array([[1], [2]])}, 2, "out.npz")
    assert found.outputs == {}
    assert found.labels is not None and found.labels.tolist() == [1, 2]


def test_reference_that_fits_nothing(model: LockModel) -> None:
    with pytest.raises(InputError, match="no array has the name of an output") as caught:
        match_reference(model, {"image:0": F8}, 1, "out.npz")
    assert caught.value.hint.startswith("Its outputs are: 'logits', '1' (or their indices)")


@pytest.mark.parametrize("arrays", [{"logits": np.zeros((3, 3), np.float32)}, {"label": np.zeros(3, int)}])
def test_reference_of_another_count(model: LockModel, arrays: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="3 inferences here, and 2 in the inputs"):
        match_reference(model, arrays, 2, "out.npz")


def test_accuracy() -> None:
    outputs = [np.array([0.1, 0.9]), np.array([0.8, 0.2]), np.array([[[3, 1]]])]
    assert accuracy(outputs, np.array([1, 1, 0])) == pytest.approx(2 / 3)
    assert accuracy([], np.array([])) == 0.0


@pytest.mark.parametrize(
    ("output", "label"),
    [
        (np.array([2], np.int64), 2),
        (np.array([[7]], np.int32), 7),
        (np.array([3, 9], np.int64), 1),
        (np.array([5], np.int8), 0),
        (np.array([0.9], np.float32), 0),
    ],
)
def test_a_whole_number_alone_is_the_class(output: Array, label: int) -> None:
    """As the output ``label`` of scikit-learn's classifiers; one quantised value is no class."""
    assert class_of(output) == label
    assert accuracy([output], np.array([label])) == 1.0
