# SPDX-License-Identifier: Apache-2.0
"""PyTorch's files: pickles are refused and never opened, programs and modules compute what PyTorch does."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from cli_helpers import Caller
from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.frontends.registry import find_frontend
from mlf_sdk.frontends.torch.kinds import TorchFile, entries, kind_of
from mlf_sdk.frontends.torch.program import program_to_onnx


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def saved(folder: Path, bomb: bytes) -> dict[str, Path]:
    """Files in the forms of ``torch.save``, ``torch.jit.save`` and old versions, under honest names and others."""
    members = {"m/data.pkl": bomb, "m/byteorder": b"little", "m/data/0": bytes(64), "m/version": b"3\n"}
    script = {"j/data/0": bytes(64), "j/data.pkl": bomb, "j/code/__torch__.py": b"", "j/constants.pkl": bomb}
    old = {"version": b"8.1", "serialized_exported_program.json": b"{}", "serialized_state_dict.json": bomb}
    files = {"zip": zipped(folder / "m.pt", members), "script": zipped(folder / "j.pth", script)}
    files["old program"] = zipped(folder / "old.pt2", old)
    files["renamed"] = zipped(folder / "renamed.onnx.bin", members)
    for key, name in (("pickle", "raw.pt"), ("pickle without its name", "weights")):
        files[key] = folder / name
        files[key].write_bytes(bomb)
    return files


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(capsys)


@pytest.mark.parametrize(
    "case", ["zip", "script", "old program", "renamed", "pickle", "pickle without its name"]
)
def test_a_pickle_is_refused_and_never_opened(
    case: str, tmp_path: Path, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "ran"
    bomb = pickle.dumps(Bomb(marker), protocol=2)
    path = saved(tmp_path, bomb)[case]
    pickle.loads(bomb)
    assert marker.exists()  # the bomb works
    marker.unlink()
    monkeypatch.setitem(sys.modules, "torch", None)  # not even imported
    for words in (
        ("inspect", path),
        ("compile", path, "-o", tmp_path / "a.tar"),
        ("run", path, "--board", "host"),
    ):
        shown = call(*words)
        assert shown.code == 2, shown
        assert "a pickle of PyTorch: it runs code when it is loaded" in shown.err
        assert "torch.export.save" in shown.err and "torch.onnx.export" in shown.err
    assert not marker.exists() and not (tmp_path / "a.tar").exists()


PROGRAM = {"m/models/model.json": b"{}", "m/archive_format": b"pt2", "m/data/sample_inputs/model.pt": b""}


def test_a_program_is_recognised_by_content_and_names_the_extra(
    tmp_path: Path, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = zipped(tmp_path / "model.bin", PROGRAM)
    assert kind_of(path) is TorchFile.PROGRAM and find_frontend(path).name == "torch"
    monkeypatch.setitem(sys.modules, "torch", None)
    for words in (("inspect", path), ("compile", path, "-o", tmp_path / "a.tar"), ("run", path)):
        shown = call(*words)
        assert shown.code == 2 and "the package 'torch' is not installed" in shown.err
        assert "mlf-sdk[torch]" in shown.err
    with pytest.raises(InputError, match="'torch' is not installed"):
        mlf_sdk.compile(object(), tmp_path / "a.tar", example_inputs=())


def test_other_files_are_not_of_pytorch(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones(3))
    (tmp_path / "text").write_text("text.")
    (tmp_path / "none").write_bytes(b"")
    (tmp_path / "cut.zip").write_bytes((tmp_path / "a.npz").read_bytes()[:-60])
    for path in tmp_path.iterdir():
        assert kind_of(path) is None, path
    assert kind_of(tmp_path) is None and kind_of(tmp_path / "missing") is None
    assert entries(b"PK\x01\x02") == [] and entries(b"PK\x01\x02" + bytes(24) + b"\xff\xff" + bytes(16)) == [
        ""
    ]


HOSTILE: dict[str, dict[str, bytes]] = {
    "custom object": {"m/data/constants/custom_obj_0": b"x"},
    "opaque object": {"m/data/constants/opaque_obj_0": b"x"},
    "library": {"m/data/aotinductor/model/a.so": b"x"},
    "pickled weights": {
        "m/data/weights/model_weights_config.json": json.dumps({"config": {"w": {"use_pickle": True}}}).encode()
    },
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_program_with_objects_or_libraries_is_refused(case: str, tmp_path: Path) -> None:
    path = zipped(tmp_path / "m.pt2", PROGRAM | HOSTILE[case])
    with pytest.raises(InputError, match="it holds objects that run code when they are loaded"):
        program_to_onnx(path, tmp_path / "m.onnx")


def test_a_damaged_program_is_one_error(tmp_path: Path) -> None:
    path = zipped(tmp_path / "m.pt2", PROGRAM | {"m/data/weights/model_weights_config.json": b"{"})
    with pytest.raises(InputError, match="damaged"):
        program_to_onnx(path, tmp_path / "m.onnx")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="damaged"):
        program_to_onnx(path, tmp_path / "m.onnx")


# ---- with PyTorch ----


@pytest.fixture(scope="module")
def torch() -> Any:
    pytest.importorskip("onnxscript", reason="PyTorch's exporter (onnxscript) is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("torch", reason="PyTorch is not installed")


def cnn(torch: Any) -> tuple[Any, Any]:
    nn = torch.nn
    layers = [nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 12, 1), nn.SiLU(), nn.Dropout()]
    layers += [nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(108, 10), nn.Softmax(-1)]
    module = nn.Sequential(*layers)
    with torch.no_grad():  # statistics that are not 0 and 1
        for _ in range(3):
            module(torch.randn(8, 2, 12, 12) * 2 + 1)
    return module.eval(), torch.randn(1, 2, 12, 12)


def mlp(torch: Any) -> tuple[Any, Any]:
    nn = torch.nn
    module = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5), nn.Tanh())
    return module.eval(), torch.randn(1, 20)


def ran(path: Path, x: Any) -> Any:
    report = mlf_sdk.run(path, board="host", inputs={"0": x.numpy()})
    assert report.ok
    return next(iter(report.outputs.values()))


@pytest.mark.toolchain
@pytest.mark.parametrize("make", [cnn, mlp])
def test_modules_and_programs_compute_what_pytorch_does(
    make: Callable[[Any], tuple[Any, Any]], torch: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(4)
    module, x = make(torch)
    found = mlf_sdk.compile(module, tmp_path / "net.tar", example_inputs=(x,), name="net")
    assert found.model.name == "net"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = module(x).numpy()
        torch.export.save(torch.export.export(module, (x,)), tmp_path / "program.pt2")
    np.testing.assert_allclose(ran(found.output, x).reshape(wanted.shape), wanted, rtol=0, atol=1e-5)
    mlf_sdk.compile(tmp_path / "program.pt2", tmp_path / "program.tar", name="net")
    assert (tmp_path / "program.tar").stat().st_size == found.size_bytes
    np.testing.assert_array_equal(ran(tmp_path / "program.tar", x), ran(found.output, x))
    assert capfd.readouterr() == ("", "")


@pytest.mark.toolchain
def test_a_module_that_was_quantised_by_pt2e(torch: Any, tmp_path: Path) -> None:
    """Its layers compute with int8, and the outputs are those of the converted module within a step."""
    pytest.importorskip("torchao", reason="PT2E's quantiser (torchao) is not installed")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

    torch.manual_seed(7)
    nn = torch.nn
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU()]
    plain = nn.Sequential(*layers, nn.Flatten(), nn.Linear(256, 10)).eval()
    samples = [torch.randn(1, 1, 12, 12) for _ in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
        observed = prepare_pt2e(torch.export.export(plain, (samples[0],)).module(), quantizer)
        for sample in samples:
            observed(sample)
        module = convert_pt2e(observed)
        wanted = module(samples[0]).detach().numpy()
    found = mlf_sdk.compile(module, tmp_path / "net.tar", example_inputs=(samples[0],), name="net")
    between = [tensor for step in found.model.steps for tensor in step.outputs]
    assert sum(str(found.model.tensors[tensor].dtype) == "int8" for tensor in between) >= 3
    step = (wanted.max() - wanted.min()) / 100
    np.testing.assert_allclose(
        ran(found.output, samples[0]).reshape(wanted.shape), wanted, rtol=0, atol=2 * step
    )


def test_a_pickle_among_the_sample_inputs_is_not_opened(torch: Any, tmp_path: Path) -> None:
    module, x = mlp(torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(module, (x,)), tmp_path / "good.pt2")
        torch.save(Bomb(tmp_path / "ran"), tmp_path / "bomb.pt")
    with zipfile.ZipFile(tmp_path / "good.pt2") as good:
        members = {i.filename: good.read(i) for i in good.infolist()}
    (name,) = (n for n in members if "/sample_inputs/" in n)
    path = zipped(tmp_path / "bad.pt2", members | {name: (tmp_path / "bomb.pt").read_bytes()})
    with pytest.raises(InputError, match="PyTorch can't export it"):
        mlf_sdk.compile(path, tmp_path / "a.tar")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "a.tar").exists()


def test_modules_that_are_refused(torch: Any, tmp_path: Path) -> None:
    module, x = mlp(torch)
    with pytest.raises(InputError, match="in training mode"):
        mlf_sdk.compile(module.train(), tmp_path / "a.tar", example_inputs=(x,))
    with (
        warnings.catch_warnings(),
        pytest.raises(ArchiveError, match="as in training"),
    ):
        warnings.simplefilter("ignore")
        dropping = torch.nn.Sequential(module, torch.nn.Dropout()).train()
        graph = torch.export.export(dropping, (x,)).module()
        mlf_sdk.compile(graph, tmp_path / "a.tar", example_inputs=(x,))
    with pytest.raises(InputError, match="neither a module nor an exported program"):
        mlf_sdk.compile(3, tmp_path / "a.tar", example_inputs=(x,))
    with pytest.raises(InputError, match="no tuple of example inputs"):
        mlf_sdk.compile(module.eval(), tmp_path / "a.tar")
    with pytest.raises(InputError, match="PyTorch can't export it"):
        mlf_sdk.compile(module, tmp_path / "a.tar", example_inputs=(x[:, :7],))


@pytest.mark.toolchain
def test_the_example_trains_compiles_and_runs(torch: Any, tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "examples" / "train_torch.py"
    shown = subprocess.run([sys.executable, script, "host"], cwd=tmp_path, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    said = re.findall(r"^accuracy .*: (\d+)%$", shown.stdout, re.MULTILINE)
    assert len(said) == 2 and said[0] == said[1] and int(said[0]) >= 90
