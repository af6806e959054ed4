# SPDX-License-Identifier: Apache-2.0
"""A bundle as a `Model`: one step, whose tensors lie in one memory, with its activations behind them.

The planner sees a single buffer, so that offsets are those that the code was compiled for; the activations
lie at its end, where the arena's high-water mark measures them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mlf_sdk.errors import InputError
from mlf_sdk.frontends.glow.bundle import ALIGNMENT, Entry, Placeholder
from mlf_sdk.frontends.glow.direction import output_names
from mlf_sdk.frontends.glow.objects import needed
from mlf_sdk.frontends.glow.read import Bundle
from mlf_sdk.frontends.glow.types import PlaceholderType
from mlf_sdk.frontends.stated import Stated, StatedType
from mlf_sdk.ir.abi import Value, call_with
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import CodeUnit, MemorySummary, Model, Provenance, Step, Tensor, TensorKind, UnitKind
from mlf_sdk.ir.names import NameTable, legal_identifier
from mlf_sdk.tools.checks import BoundedFaults

_MEMORY, _ACTIVATIONS, _FIRST = 0, 1, 2
_BYTE = DType.parse("uint8")


def build_model(bundle: Bundle, entry: Entry, stated: Stated) -> Model:
    """The model of one entry of a bundle.

    Raises:
        UndecidedError: it is not known which placeholders are outputs.
        InputError: a type is not known, or a stated one does not fit.
    """
    where = f"{bundle.files.source}, entry {entry.name}"
    placeholders = sorted(bundle.placeholders, key=lambda p: p.offset)
    types = _types(placeholders, bundle.memory.mutable, stated.types_by_name(), where)
    ordered = len(bundle.entries) == 1 and bool(bundle.version)
    outputs = output_names(placeholders, stated.outputs or bundle.outputs, ordered=ordered, where=where)
    tensors = tuple(_tensors(bundle, placeholders, types, outputs))
    by_name = {t.name: t.id for t in tensors[_FIRST : _FIRST + len(placeholders)]}
    given = tuple(i for name, i in by_name.items() if name not in outputs)
    taken = tuple(by_name[name] for name in outputs)
    constants = tuple(t.id for t in tensors if t.kind is TensorKind.CONSTANT)
    passed = [Value.of_tensor(constants[0]) if constants else Value.null()]
    passed += [Value.of_tensor(_MEMORY), Value.of_tensor(_ACTIVATIONS)]
    name = bundle.name if len(bundle.entries) == 1 else entry.name
    return Model(
        name=name,
        c_name=legal_identifier(name, fallback="bundle"),
        provenance=_provenance(bundle),
        executor="bundle",
        targets=_targets(bundle, entry),
        tensors=tensors,
        inputs=given,
        outputs=taken,
        output_names=outputs,
        steps=(
            Step(
                index=0,
                name=entry.name,
                symbol=entry.name,
                abi=call_with(passed, result=entry.result),
                inputs=(*constants, *given),
                outputs=(*taken, _ACTIVATIONS),
                exact=False,
            ),
        ),
        units=tuple(_units(bundle, entry)),
        summary=MemorySummary(
            workspace_bytes=bundle.memory.mutable + bundle.memory.activations,
            constants_bytes=bundle.memory.constant,
        ),
        alignment=max(ALIGNMENT, bundle.memory.alignment),
        exports=(entry.name,),
    )


def _types(
    placeholders: Sequence[Placeholder], end: int, stated: Mapping[str, StatedType], where: str
) -> dict[str, PlaceholderType]:
    """Types by the header, or as stated; each fits the room up to the next placeholder."""
    unknown = [name for name in stated if name not in {p.name for p in placeholders}]
    missing = [p for p in placeholders if p.type is None and p.name not in stated]
    if unknown or missing:
        rows = ", ".join(f"{p.name} ({p.elements} elements)" for p in missing[:20])
        raise InputError(
            f"there is no placeholder '{unknown[0]}'" if unknown else f"the types are not stated: {rows}",
            where=where,
            hint="State each with --type NAME=TYPE[EXTENT,EXTENT], e.g. --type input=float32[1,8]. The "
            f"placeholders are: {', '.join(p.name for p in placeholders[:20])}",
        )
    result = {}
    ends = [*(p.offset for p in placeholders[1:]), end]
    for placeholder, limit in zip(placeholders, ends, strict=True):
        kind = placeholder.type or _as_stated(placeholder, stated[placeholder.name], where)
        if placeholder.offset + kind.size_bytes > limit:
            raise InputError(
                f"'{placeholder.name}' has room for {limit - placeholder.offset} bytes; "
                f"{placeholder.elements} elements of {kind.dtype} take {kind.size_bytes}",
                where=where,
                hint="State its type with --type.",
            )
        result[placeholder.name] = kind
    return result


def _as_stated(placeholder: Placeholder, stated: StatedType, where: str) -> PlaceholderType:
    shape = (placeholder.elements,) if stated.shape is None else stated.shape
    kind = PlaceholderType(dtype=stated.dtype, shape=shape)
    if kind.elements != placeholder.elements:
        raise InputError(
            f"'{placeholder.name}' has {placeholder.elements} elements, and {kind.elements} are stated",
            where=f"{where}, --type",
        )
    return kind


def _tensors(
    bundle: Bundle,
    placeholders: Sequence[Placeholder],
    types: Mapping[str, PlaceholderType],
    outputs: Sequence[str],
) -> Iterator[Tensor]:
    """Yield the memory, the activations in it, the placeholders in it, and the constants."""
    names, memory = NameTable(), bundle.memory
    yield _bytes(_MEMORY, names.unique("memory"), memory.mutable + memory.activations)
    yield _bytes(
        _ACTIVATIONS, names.unique("activations"), memory.activations, alias_of=_MEMORY, offset=memory.mutable
    )
    for index, result in enumerate(placeholders, _FIRST):
        kind = types[result.name]
        yield Tensor(
            id=index,
            name=result.name,
            c_name=names.unique(result.name),
            dtype=kind.dtype,
            shape=kind.shape,
            kind=TensorKind.INTERMEDIATE if result.name in outputs else TensorKind.INPUT,
            alias_of=_MEMORY,
            offset_bytes=result.offset,
            quantisation=kind.quantisation,
        )
    if bundle.constants:
        yield _bytes(
            _FIRST + len(placeholders), names.unique("constants"), memory.constant, data=bundle.constants
        )


def _bytes(
    index: int,
    name: str,
    size: int,
    *,
    alias_of: int | None = None,
    offset: int = 0,
    data: bytes | None = None,
) -> Tensor:
    return Tensor(
        id=index,
        name=name,
        c_name=name,
        dtype=_BYTE,
        shape=(size,),
        kind=TensorKind.INTERMEDIATE if data is None else TensorKind.CONSTANT,
        alias_of=alias_of,
        offset_bytes=offset,
        data=data,
    )


def _provenance(bundle: Bundle) -> Provenance:
    origin = bundle.origin
    return Provenance(
        format="Glow bundle",
        format_version=f"({bundle.api} API)",
        compiler="Glow" if origin is None else origin.compiler,
        compiler_version=bundle.version if origin is None else origin.compiler_version,
        sha256=bundle.files.sha256,
        source=bundle.files.source,
        options={} if origin is None else origin.options,
        made_from=None if origin is None else origin.made_from,
    )


def _targets(bundle: Bundle, entry: Entry) -> tuple[str, ...]:
    """CPU that the network itself was compiled for, by the attributes of its object."""
    (member,) = [m for m in bundle.code if entry.name in m.info.defined][:1]
    attributes = member.info.attributes
    if attributes is None:
        return (member.info.machine,)
    return (attributes.target,)


def _units(bundle: Bundle, entry: Entry) -> Iterator[CodeUnit]:
    """Yield the objects that the entry needs; names of members are not used as paths."""
    file = bundle.files.code[0] if bundle.files.code else ""
    members = needed(bundle.code, [entry.name], file, BoundedFaults(bundle.files.source))
    for number, member in enumerate(members):
        yield CodeUnit(
            member=f"bundle/part{number}.o",
            kind=UnitKind.OBJECT,
            data=member.data,
            linked=True,
            symbols=(entry.name,) if entry.name in member.info.defined else (),
        )
