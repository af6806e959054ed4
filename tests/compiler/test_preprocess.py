# SPDX-License-Identifier: Apache-2.0
"""Preprocessing: C and Python agree to the bit, and Python with formulas in real numbers; wrong keys are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from mlf_sdk.compiler.preprocess.inputs import decoded
from mlf_sdk.compiler.preprocess.plan import plan_of, preprocessed, raw_of
from mlf_sdk.compiler.preprocess.section import section_of, section_text
from mlf_sdk.errors import InputError
from preprocess_c import Array, computed, preprocessing, program

UNIT = [0.0, 1.0]
BAYER = ("bayer-rggb", "bayer-bggr", "bayer-grbg", "bayer-gbrg")
FRAMES = ("grey8", "rgb888", "bgr888", "rgb565", "rgb565be", "yuyv", "uyvy", *BAYER)
CASES: list[tuple[dict[str, Any], tuple[int, ...], dict[str, Any]]] = [
    *(({"frame": f, "width": 17, "height": 13}, (1, 9, 7, 3), {}) for f in FRAMES),
    *(({"frame": f, "width": 12, "height": 10}, (1, 19, 23, 1), {}) for f in FRAMES),
    *(
        ({"frame": f, "width": 3, "height": 2}, (4, 5, 3), {}) for f in (*BAYER, "yuyv")
    ),  # the least, enlarged
    *(({"frame": f, "width": 11, "height": 5, "yuv": "limited"}, (5, 11, 3), {}) for f in ("yuyv", "uyvy")),
    ({"frame": "uyvy", "width": 9, "height": 9, "crop": [3, 2, 5, 6], "colour": "bgr"}, (1, 3, 8, 8), {}),
    (
        {"frame": "grey8", "width": 40, "height": 30, "crop": "center"},
        (12, 12),
        {"dtype": "uint8", "zero_point": 0},
    ),
    ({"frame": "grey8", "width": 5, "height": 7, "resize": "nearest"}, (1, 3, 11, 1), {}),
    ({"frame": "grey8", "width": 1, "height": 1}, (1, 3, 3, 1), {}),
    ({"frame": "rgb888", "width": 8, "height": 8, "layout": "nchw"}, (1, 3, 8, 3), {}),
    (
        {
            "frame": "rgb888",
            "width": 8,
            "height": 6,
            "range": None,
            "mean": [0.4, 0.5, 0.6],
            "std": [0.2, 0.3, 0.25],
        },
        (6, 8, 3),
        {"dtype": "int16", "scale": 1 / 1000, "zero_point": 3},
    ),
    (
        {"frame": "rgb565", "width": 10, "height": 10, "range": None, "mean": 0.45, "std": 0.225},
        (1, 3, 6, 6),
        {"dtype": "float32"},
    ),
]
SPEECH: dict[str, Any] = {"rate": 16000}
SOUNDS: list[tuple[dict[str, Any], tuple[int, ...], dict[str, Any]]] = [
    ({**SPEECH, "noise": True, "gain": True, "unit": 10 / 256}, (1, 6 * 40), {"scale": 26 / 256}),
    ({**SPEECH, "gain": True}, (1, 5, 40, 1), {"scale": 0.05, "zero_point": 0}),
    (
        {**SPEECH, "noise": True, "coefficients": 10},
        (1, 5, 10),
        {"dtype": "int16", "scale": 0.001, "zero_point": 0},
    ),
    (
        {
            **SPEECH,
            "window_ms": 25,
            "stride_ms": 10,
            "channels": 26,
            "low_hz": 20,
            "high_hz": 4000,
            "coefficients": 13,
        },
        (4, 13),
        {"dtype": "float32"},
    ),
    (
        {"rate": 8000, "window_ms": 16, "stride_ms": 16, "channels": 20, "high_hz": 4000},
        (3, 20),
        {"scale": 0.1},
    ),
]


def of_case(pre: dict[str, Any], shape: tuple[int, ...], facts: dict[str, Any]) -> Any:
    pre = {
        key: value
        for key, value in ({"range": UNIT} | pre if "frame" in pre else pre).items()
        if value is not None
    }
    return preprocessing(pre, shape, **facts)


def raw_batch(of: Any, count: int, seed: int = 0) -> Array:
    """Random bytes, the darkest and the brightest; of sound noise, silence and what is clipped."""
    raw, rng = raw_of(plan_of(of)), np.random.default_rng(seed)
    info = np.iinfo(raw.dtype)
    batch = rng.integers(info.min, info.max + 1, (count, *raw.shape)).astype(raw.dtype)
    batch[-1], batch[-2] = info.min, info.max
    if raw.dtype == "int16":
        batch[0] = np.round(rng.normal(size=raw.shape) * 3)
        batch[-1] = 0
    return batch


@pytest.mark.toolchain
@pytest.mark.parametrize(("pre", "shape", "facts"), [*CASES, *SOUNDS])
def test_c_and_python_agree(
    pre: dict[str, Any], shape: tuple[int, ...], facts: dict[str, Any], tmp_path: Path, needs_cc: str
) -> None:
    of = of_case(pre, shape, facts)
    raw = raw_batch(of, 4)
    wanted = np.stack([preprocessed(of, one) for one in raw])
    assert wanted.shape == (4, *shape)
    assert wanted.dtype == np.dtype(of.facts.dtype)
    assert computed(program(tmp_path, of), of, raw).tobytes() == wanted.tobytes()
    assert len({one.tobytes() for one in wanted}) > 1


# ---- formulas in real numbers ----


def real_lines(pixels: Array, size: int, wanted: int, axis: int) -> Array:
    """Linear interpolation along an axis, centres of pixels aligned, edges held."""
    places = np.clip((np.arange(wanted) + 0.5) * size / wanted - 0.5, 0, size - 1)
    lines = np.moveaxis(pixels.astype(float), axis, -1)
    flat = lines.reshape(-1, size)
    result = np.stack([np.interp(places, np.arange(size), line) for line in flat])
    return np.moveaxis(result.reshape(*lines.shape[:-1], wanted), -1, axis)


@pytest.mark.parametrize(("wide", "high", "size"), [(17, 13, (9, 7)), (20, 30, (40, 41)), (96, 96, (96, 96))])
def test_resize_is_bilinear(wide: int, high: int, size: tuple[int, int]) -> None:
    """Weights have 11 bits, and the result is rounded once: it is off by half and by 255 / 2048 at most."""
    of = of_case(
        {"frame": "rgb888", "width": wide, "height": high}, (*size, 3), {"dtype": "uint8", "zero_point": 0}
    )
    frame = np.random.default_rng(1).integers(0, 256, (high, wide, 3)).astype(np.uint8)
    exact = real_lines(real_lines(frame, high, size[0], 0), wide, size[1], 1)
    assert np.abs(preprocessed(of, frame) - exact).max() <= 0.5 + 255 / 2048


def test_nearest_takes_the_pixel_under_the_centre() -> None:
    of = of_case(
        {"frame": "grey8", "width": 7, "height": 5, "resize": "nearest"},
        (11, 3),
        {"dtype": "uint8", "zero_point": 0},
    )
    frame = np.arange(35, dtype=np.uint8).reshape(5, 7)
    rows, columns = (np.floor((np.arange(n) + 0.5) * m / n).astype(int) for n, m in ((11, 5), (3, 7)))
    np.testing.assert_array_equal(preprocessed(of, frame), frame[rows][:, columns])


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("frame", ["yuyv", "uyvy"])
def test_yuv_is_that_of_bt_601(frame: str, limited: bool) -> None:
    pre = {"frame": frame, "width": 64, "height": 64, "yuv": "limited" if limited else "full"}
    of = of_case(pre, (64, 64, 3), {})
    raw = np.random.default_rng(2).integers(0, 256, (64, 64, 2)).astype(np.uint8)
    luma, chroma = (raw[..., 0], raw[..., 1]) if frame == "yuyv" else (raw[..., 1], raw[..., 0])
    y = (luma.astype(float) - 16) * 255 / 219 if limited else luma.astype(float)
    u, v = (
        np.repeat(chroma[:, k::2].astype(float) - 128, 2, axis=1) * (255 / 224 if limited else 1)
        for k in (0, 1)
    )
    exact = [y + 1.402 * v, y - 0.344136286 * u - 0.714136286 * v, y + 1.772 * u]
    wanted = np.clip(np.stack(exact, axis=-1), 0, 255)
    assert np.abs(decoded(plan_of(of), raw) - wanted).max() <= 0.51


def test_565_fills_all_of_0_to_255() -> None:
    of = of_case({"frame": "rgb565", "width": 256, "height": 256}, (256, 256, 3), {})
    words = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    parts = np.stack([words >> 11, words >> 5 & 63, words & 31], axis=-1)
    result = decoded(plan_of(of), words.view(np.uint8).reshape(256, 256, 2))
    assert np.abs(result - parts / [31, 63, 31] * 255).max() < 1
    assert {*np.unique(result[0]), *np.unique(result[-1])} >= {0, 255}
    big = of_case({"frame": "rgb565be", "width": 256, "height": 256}, (256, 256, 3), {})
    swapped = words.byteswap().view(np.uint8).reshape(256, 256, 2)
    np.testing.assert_array_equal(decoded(plan_of(big), swapped), result)


@pytest.mark.parametrize("frame", BAYER)
def test_a_mosaic_of_planes_gives_the_planes(frame: str) -> None:
    """Colours that are linear along rows and columns come out as they are, but for rounding and the edges."""
    y, x = np.indices((12, 14))
    colours = np.stack([20 + 4 * x + 3 * y, 200 - 5 * x - 4 * y, 90 + 3 * x - 2 * y], axis=-1)
    letters = frame.partition("-")[2]
    which = np.array(["rgb".index(letter) for letter in letters]).reshape(2, 2)[y % 2, x % 2]
    raw = np.take_along_axis(colours, which[..., None], axis=-1)[..., 0].astype(np.uint8)
    of = of_case({"frame": frame, "width": 14, "height": 12}, (12, 14, 3), {})
    result = decoded(plan_of(of), raw)
    assert np.abs(result - colours)[1:-1, 1:-1].max() <= 1
    np.testing.assert_array_equal(np.take_along_axis(result, which[..., None], axis=-1)[..., 0], raw)


def test_grey_is_that_of_bt_601() -> None:
    of = of_case({"frame": "rgb888", "width": 64, "height": 64}, (64, 64, 1), {})
    raw = np.random.default_rng(3).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    exact = raw.astype(float) @ [0.299, 0.587, 0.114]
    assert np.abs(decoded(plan_of(of), raw)[..., 0] - exact).max() <= 0.51


def test_stored_values_are_the_nearest() -> None:
    pre = {"frame": "grey8", "width": 256, "height": 1, "range": [-1.0, 2.0]}
    of = of_case(pre, (1, 256), {"scale": 0.013, "zero_point": -20})
    pixels = np.arange(256, dtype=np.uint8)[None]
    exact = (pixels / 255 * 3 - 1) / 0.013 - 20
    assert np.abs(preprocessed(of, pixels) - np.clip(exact, -128, 127)).max() <= 0.5 + 1e-9
    whole = of_case({"frame": "grey8", "width": 256, "height": 1}, (1, 256), {})
    np.testing.assert_array_equal(preprocessed(whole, pixels), (pixels.astype(int) - 128).astype(np.int8))


def tones(samples: int, rate: int) -> Array:
    t = np.arange(samples) / rate
    rng = np.random.default_rng(5)
    sound = (
        sum(4000 / k * np.sin(2 * np.pi * 220 * k * t + k) for k in range(1, 12))
        + rng.normal(size=samples) * 300
    )
    return np.round(sound).astype(np.int16)


def real_logs(sound: Array, windows: int, *, rate: int, window: int, stride: int, channels: int) -> Array:
    """ln(sqrt(mel energy)) in real numbers, of filters that are triangles in mel from 125 to 7,500 Hz."""
    length = 1 << (window - 1).bit_length()
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(window) + 0.5) / window)
    rows = np.stack([sound[k * stride : k * stride + window] * hann for k in range(windows)])
    energy = np.abs(np.fft.rfft(rows, length)) ** 2
    mel = 1127 * np.log1p(np.arange(length // 2 + 1) * rate / length / 700)
    ends = np.linspace(*(1127 * np.log1p(np.array([125, 7500]) / 700)), channels + 2)
    rising = (mel - ends[:-2, None]) / np.diff(ends)[:-1, None]
    falling = (ends[2:, None] - mel) / np.diff(ends)[1:, None]
    return np.log(energy @ np.clip(np.minimum(rising, falling), 0, None).T) / 2


def test_features_are_logarithms_of_mel_energies() -> None:
    """A transform of 16 bits is what is computed: 5 % of an amplitude, which is 0.05 as a logarithm, and less on average."""
    of = of_case(SPEECH, (10, 40), {"dtype": "float32"})
    sound = tones(plan_of(of).samples, 16000)
    exact = real_logs(sound, 10, rate=16000, window=480, stride=320, channels=40)
    difference = np.abs(preprocessed(of, sound) - exact)
    assert difference.max() < 0.1
    assert difference.mean() < 0.02


def test_coefficients_are_the_cosine_transform() -> None:
    """Cosines have 14 bits behind the point: 40 logarithms of up to 22 are off by 40 * 22 / 2^15."""
    mfcc = of_case({**SPEECH, "coefficients": 13}, (10, 13), {"dtype": "float32"})
    logs = of_case(SPEECH, (10, 40), {"dtype": "float32"})
    sound = tones(plan_of(logs).samples, 16000)
    x = preprocessed(logs, sound).astype(float)
    k, c = np.arange(13)[:, None], np.arange(40)[None]
    exact = x @ (np.cos(np.pi * k * (c + 0.5) / 40) * np.sqrt(2 / 40)).T
    np.testing.assert_allclose(preprocessed(mfcc, sound), exact, atol=0.027)


@pytest.mark.shared
def test_features_are_those_of_tflms_preprocessor() -> None:
    """Its model for micro_speech has other rounding behind the logarithm alone: (256 x + 333) / 666."""
    path = (
        Path(__file__).resolve().parents[3]
        / "shared/corpus/tflite_micro_models_audio_preprocessor_int8.tflite"
    )
    if not path.is_file():
        pytest.skip(f"no such model: {path}")
    micro = pytest.importorskip("tflite_micro")
    of = of_case({**SPEECH, "noise": True, "gain": True, "unit": 256 / 666}, (8, 40), {"scale": 1.0})
    sound = tones(plan_of(of).samples, 16000)
    runtime = micro.runtime.Interpreter.from_file(str(path), arena_size=100_000)
    rows = []
    for k in range(8):
        runtime.set_input(sound[None, k * 320 : k * 320 + 480], 0)
        runtime.invoke()
        rows.append(runtime.get_output(0).copy().reshape(-1))
    np.testing.assert_array_equal(preprocessed(of, sound), np.stack(rows))


# ---- keys ----

IMAGE = {"frame": "rgb888", "width": 8, "height": 8, "range": UNIT}


@pytest.mark.parametrize(
    ("pre", "shape", "facts", "said"),
    [
        ({}, (8, 8, 3), {}, "neither frame nor rate"),
        ({"frame": "rgb888", "rate": 8000}, (8, 8, 3), {}, "both frame and rate"),
        ({**IMAGE, "noise": True}, (8, 8, 3), {}, "noise: not for images"),
        ({**SPEECH, "crop": "center"}, (40,), {}, "crop: not for sound"),
        ({**IMAGE, "colur": "rgb", "width": "8"}, (8, 8, 3), {}, "there are 2 faults"),
        ({**IMAGE, "frame": "rgb555"}, (8, 8, 3), {}, "bayer-gbrg"),
        ({**IMAGE, "height": 0}, (8, 8, 3), {}, "[pre] height"),
        ({key: IMAGE[key] for key in ("frame", "height", "range")}, (8, 8, 3), {}, "[pre] width"),
        ({**IMAGE, "frame": "bayer-rggb", "width": 1}, (8, 8, 3), {}, "[pre] frame"),
        ({**IMAGE, "crop": [4, 4, 5, 4]}, (8, 8, 3), {}, "[pre] crop"),
        ({**IMAGE, "crop": [-1, 0, 5, 4]}, (8, 8, 3), {}, "[pre] crop"),
        ({**IMAGE, "colour": "grey"}, (8, 8, 3), {}, "[pre] colour"),
        ({**IMAGE, "colour": "bgr"}, (8, 8, 1), {}, "[pre] colour"),
        ({**IMAGE, "layout": "nchw"}, (8, 8, 3), {}, "[pre] layout"),
        (IMAGE, (2, 8, 8, 3), {}, "[pre]"),
        (IMAGE, (8, 8, 4), {}, "[pre]"),
        ({key: IMAGE[key] for key in ("frame", "width", "height")}, (8, 8, 3), {}, "[pre] range"),
        ({**IMAGE, "mean": 0.5}, (8, 8, 3), {}, "[pre] range"),
        ({**IMAGE, "range": [0.0, float("inf")]}, (8, 8, 3), {}, "[pre] range"),
        ({**IMAGE, "range": None, "std": [1.0, 2.0]}, (8, 8, 3), {}, "[pre] std"),
        ({**IMAGE, "range": None, "std": 0.0}, (8, 8, 3), {}, "[pre] std"),
        (IMAGE, (8, 8, 3), {"scale": 0.0}, "[pre] input"),
        (IMAGE, (8, 8, 3), {"dtype": "int32"}, "[pre] input"),
        ({"rate": 100}, (40,), {}, "[pre] rate"),
        ({"rate": 11025}, (40,), {}, "[pre] window_ms"),
        ({**SPEECH, "window_ms": 400}, (40,), {}, "[pre] window_ms"),
        ({**SPEECH, "stride_ms": 0}, (40,), {}, "[pre] stride_ms"),
        ({**SPEECH, "channels": 1}, (40,), {}, "[pre] channels"),
        ({**SPEECH, "channels": 128, "window_ms": 4}, (128,), {}, "[pre] channels"),
        ({**SPEECH, "coefficients": 41}, (41,), {}, "[pre] coefficients"),
        ({**SPEECH, "coefficients": 7}, (40,), {}, "[pre] coefficients"),
        (SPEECH, (39,), {}, "[pre] channels"),
        ({**SPEECH, "high_hz": 8001}, (40,), {}, "[pre] high_hz"),
        ({**SPEECH, "unit": 0.0}, (40,), {}, "[pre] unit"),
        ({**SPEECH, "unit": 1e30}, (40,), {}, "[pre] unit"),
        (SPEECH, (40,), {"scale": 0.0}, "[pre] input"),
    ],
)
def test_wrong_keys_are_named(
    pre: dict[str, Any], shape: tuple[int, ...], facts: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as error:
        plan_of(
            preprocessing({key: value for key, value in pre.items() if value is not None}, shape, **facts)
        )
    assert said in str(error.value)


def test_a_section_comes_from_files_and_texts(tmp_path: Path) -> None:
    (tmp_path / "mlf.toml").write_text('board = "host"\n[pre]\nrate = 16000\ncoefficients = 10\n')
    (tmp_path / "pyproject.toml").write_text("[tool.mlf-sdk.pre]\nrate = 16000\ncoefficients = 10\n")
    section = section_of(tmp_path / "mlf.toml")
    assert section == section_of(tmp_path / "pyproject.toml") == section_of(section_text(section))
    (tmp_path / "none.toml").write_text("[model]\n")
    for name, said in (("none.toml", "no section [pre]"), ("missing.toml", "can't read")):
        with pytest.raises(InputError, match=said.replace("[", r"\[")):
            section_of(tmp_path / name)


def test_the_function_takes_batches_and_refuses_other_shapes() -> None:
    frames = np.random.default_rng(7).integers(0, 256, (3, 8, 8, 3)).astype(np.uint8)
    batch = mlf_sdk.preprocess(frames, IMAGE, shape=(4, 4, 3))
    assert batch.shape == (3, 4, 4, 3)
    assert batch.dtype == np.float32
    np.testing.assert_array_equal(mlf_sdk.preprocess(frames[1], IMAGE, shape=[4, 4, 3]), batch[1])
    for wrong in (frames.astype(np.int16), frames[:, :7], frames[None], frames[:0]):
        with pytest.raises(InputError):
            mlf_sdk.preprocess(wrong, IMAGE, shape=(4, 4, 3))
    with pytest.raises(InputError, match="neither model nor shape"):
        mlf_sdk.preprocess(frames, IMAGE)
