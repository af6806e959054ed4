# SPDX-License-Identifier: Apache-2.0
"""Build attributes of ARM objects, and their compatibility with a board.

Source: Arm's "Addenda to, and errata in, the ABI for the Arm architecture" (section .ARM.attributes).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from mlf_sdk.analysis.machine.attributes import COMPATIBILITY, read_tags

_CPU_NAME, _CPU_ARCH, _PROFILE, _ARM_ISA, _FP_ARCH = 5, 6, 7, 8, 10
_FP_NUMBER_MODEL, _HARD_FP_USE, _VFP_ARGS, _DSP, _MVE = 23, 27, 28, 46, 48

_ARCHITECTURES = (
    *("pre-v4", "v4", "v4T", "v5T", "v5TE", "v5TEJ", "v6", "v6KZ", "v6T2", "v6K", "v7", "v6-M", "v6S-M"),
    *("v7E-M", "v8-A", "v8-R", "v8-M.base", "v8-M.main", "v8.1-A", "v8.2-A", "v8.3-A", "v8.1-M.main", "v9-A"),
)
_FP_ARCHITECTURES = (
    *("", "VFPv1", "VFPv2", "VFPv3", "VFPv3-D16", "VFPv4", "VFPv4-D16", "FP-ARMv8", "FPv5-D16"),
)

_BASELINE = frozenset({"v6-M", "v6S-M"})
_V7M = _BASELINE | {"v7-M"}
_V8M_BASE = _BASELINE | {"v8-M.base"}
_V8M_MAIN = _V7M | {"v7E-M", "v8-M.base", "v8-M.main"}
_RUNS = {
    "cortex-m0": _BASELINE,
    "cortex-m0plus": _BASELINE,
    "cortex-m1": _BASELINE,
    "cortex-m3": _V7M,
    "cortex-m4": _V7M | {"v7E-M"},
    "cortex-m7": _V7M | {"v7E-M"},
    "cortex-m23": _V8M_BASE,
    "cortex-m33": _V8M_MAIN,
    "cortex-m35p": _V8M_MAIN,
    "cortex-m52": _V8M_MAIN | {"v8.1-M.main"},
    "cortex-m55": _V8M_MAIN | {"v8.1-M.main"},
    "cortex-m85": _V8M_MAIN | {"v8.1-M.main"},
}
_HAS_MVE = frozenset({"cortex-m52", "cortex-m55", "cortex-m85"})
_NO_FPU = frozenset({"", "none", "soft", "no"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmAttributes:
    """Build attributes of an object.

    Attributes:
        cpu_name: as given to the compiler, e.g. ``cortex-m4``; may be empty.
        cpu_arch: e.g. ``v6-M``, ``v7-M``, ``v7E-M``, ``v8-M.main``.
        uses_arm_instructions: has code in the 32-bit ARM encoding, which no Cortex-M supports.
        fp_arch: FPU instructions it may use, e.g. ``VFPv4-D16``, ``FPv5-D16``; empty for none.
        single_precision_only: of those, only the ones for float.
        vfp_args: ``hard``: floats in FPU registers; ``soft``: in integer registers; None: not stated.
        mve: 0 no vector extension, 1 integer, 2 integer and float.
        dsp: it may use the DSP extension of Armv8-M.
    """

    cpu_name: str
    cpu_arch: str
    uses_arm_instructions: bool
    fp_arch: str
    single_precision_only: bool
    vfp_args: str | None
    mve: int
    dsp: bool = False

    @property
    def has_fpu_registers(self) -> bool:
        """True when the code may use floating-point or vector registers."""
        return bool(self.fp_arch or self.mve)

    @property
    def target(self) -> str:
        """The CPU, the FPU and the passing of floats, for people."""
        parts = [self.cpu_name or f"ARM{self.cpu_arch}", self.fp_arch or "no FPU"]
        return ", ".join([*parts, f"{self.vfp_args or 'no'} float arguments"])

    def may_use_fpu(self, *, for_double: bool = False) -> bool:
        """Return True when instructions of an FPU are allowed, or such that compute in double."""
        return bool(self.fp_arch) and not (for_double and self.single_precision_only)

    def problems(self, cpu: str, fpu: str, float_abi: str, *, computes_in_double: bool) -> list[str]:
        """List the reasons why a board cannot run or link an object (see BuildAttributes)."""
        # The attributes say which instructions were allowed: the code, whether there are any for double.
        result = self if computes_in_double else dataclasses.replace(self, single_precision_only=True)
        return _problems(cpu, fpu, float_abi, result)


def read_attributes(data: memoryview, byte_order: str) -> ArmAttributes:
    """Read the content of a ``.ARM.attributes`` section.

    Args:
        byte_order: ``little`` or ``big``.

    Raises:
        AttributesError: it is malformed.
    """
    return _interpret(read_tags(data, byte_order, vendor="aeabi", is_text=_is_text))


def _is_text(tag: int) -> bool:
    return tag in (4, _CPU_NAME) or (tag > COMPATIBILITY and tag % 2 == 1)


def _interpret(tags: dict[int, int | str]) -> ArmAttributes:
    arch = _named(_ARCHITECTURES, _number(tags, _CPU_ARCH))
    if arch == "v7" and _number(tags, _PROFILE) == ord("M"):
        arch = "v7-M"
    floats = _number(tags, _FP_NUMBER_MODEL) != 0
    arguments = {0: "soft" if floats else None, 1: "hard"}.get(_number(tags, _VFP_ARGS))
    return ArmAttributes(
        cpu_name=str(tags.get(_CPU_NAME, "")),
        cpu_arch=arch,
        uses_arm_instructions=_number(tags, _ARM_ISA) != 0,
        fp_arch=_named(_FP_ARCHITECTURES, _number(tags, _FP_ARCH)),
        single_precision_only=_number(tags, _HARD_FP_USE) == 1,
        vfp_args=arguments,
        mve=_number(tags, _MVE),
        dsp=_number(tags, _DSP) != 0,
    )


def _number(tags: dict[int, int | str], tag: int) -> int:
    value = tags.get(tag, 0)
    return value if isinstance(value, int) else 0


def _named(names: tuple[str, ...], number: int) -> str:
    return names[number] if number < len(names) else f"unknown ({number})"


def _problems(cpu: str, fpu: str, float_abi: str, arm_attributes: ArmAttributes) -> list[str]:
    """List the reasons why a board cannot run or link an object; empty when there are none.

    Args:
        cpu: the board's CPU as GCC calls it, e.g. ``cortex-m4``, ``cortex-m33``.
        fpu: its FPU as GCC calls it, e.g. ``fpv4-sp-d16``, ``fpv5-d16``; empty or ``none`` for none.
        float_abi: how the project is compiled: ``hard``, ``softfp`` or ``soft``.
    """
    name = cpu.partition("+")[0].lower()
    runs = _RUNS.get(name)
    problems = []
    if runs is None:
        problems.append(f"the instruction sets of {cpu} are not known")
    elif arm_attributes.cpu_arch not in runs:
        made_for = f" (made for {arm_attributes.cpu_name})" if arm_attributes.cpu_name else ""
        problems.append(f"it is code for ARM{arm_attributes.cpu_arch}{made_for}, which a {cpu} does not run")
    if arm_attributes.uses_arm_instructions:
        problems.append("it has 32-bit ARM instructions; a Cortex-M runs Thumb only")
    if arm_attributes.dsp and "+nodsp" in cpu.lower():
        problems.append(f"it uses the DSP extension, which a {cpu} does not have")
    problems += _fpu_problems(fpu.lower(), arm_attributes)
    if arm_attributes.mve and name not in _HAS_MVE:
        problems.append(f"it uses the vector extension (MVE), which a {cpu} does not have")
    if arm_attributes.vfp_args == "hard" and float_abi != "hard":
        problems.append(f"it passes floats in FPU registers; the board's float ABI is {float_abi or 'soft'}")
    if arm_attributes.vfp_args == "soft" and float_abi == "hard":
        problems.append("it passes floats in integer registers; the board's float ABI is hard")
    return problems


def _fpu_problems(fpu: str, arm_attributes: ArmAttributes) -> list[str]:
    """Compare the FPU instructions of an object with those of a board's FPU."""
    if not arm_attributes.fp_arch:
        return []
    if fpu in _NO_FPU:
        return [f"it uses FPU instructions ({arm_attributes.fp_arch}); the board has no FPU"]
    fits = {"VFPv3-D16", "VFPv4-D16"}
    if "fpv4" not in fpu:
        fits.add("FPv5-D16")
    if arm_attributes.fp_arch not in fits:
        return [
            f"it uses FPU instructions ({arm_attributes.fp_arch}) that the board's FPU ({fpu}) does not have"
        ]
    if "-sp-" in fpu and not arm_attributes.single_precision_only:
        return [f"it uses FPU instructions for double; the board's FPU ({fpu}) is for float only"]
    return []
