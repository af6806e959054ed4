# SPDX-License-Identifier: Apache-2.0
"""Consistency of a model: ids in range, sizes that fit, aliases without cycles, calls that can be made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from mlf_sdk.errors import InputError

if TYPE_CHECKING:
    from mlf_sdk.ir.model import Model
    from mlf_sdk.ir.step import Step
    from mlf_sdk.ir.tensor import Quantisation, Tensor

MAX_ALIGNMENT: Final = 4096
MAX_BYTES: Final = (1 << 31) - 1  # of a buffer: half of what a pointer of a microcontroller reaches
MAX_NDIM: Final = 16
_SCALES: Final = (2.0**-149, 2.0**128)  # of a float32: the least, and the first that is none

_Problem = tuple[str, str]


def check_model(model: Model) -> None:
    """Check everything that planner and generator rely on.

    Raises:
        InputError: with the first place that is wrong, e.g. ``steps[3].inputs``.
    """
    for where, what in _problems(model):
        raise InputError(
            what,
            where=f"model {model.name[:80]}: {where}",
            hint="The frontend built a model that contradicts itself: report this archive.",
        )


def _problems(model: Model) -> Iterator[_Problem]:
    """Yield problems as pairs of location and message; later checks rely on earlier ones."""
    if model.alignment & (model.alignment - 1) or not 1 <= model.alignment <= MAX_ALIGNMENT:
        yield "alignment", f"{model.alignment} is not a power of two up to {MAX_ALIGNMENT}"
    for index, tensor in enumerate(model.tensors):
        place = f"tensors[{index}]"
        if tensor.id != index:
            yield f"{place}.id", f"is {tensor.id}"
        yield from _tensor_problems(model, tensor, place)
    yield from _alias_problems(model)
    known = range(len(model.tensors))
    for name, ids in (("inputs", model.inputs), ("outputs", model.outputs)):
        yield from _unknown(ids, known, name)
    for position, tensor_id in enumerate(model.inputs):
        if model.root(tensor_id).kind.value == "constant":
            yield (
                f"inputs[{position}]",
                f"the constant {model.tensors[tensor_id].name[:80]!r} is never written",
            )
    if len(model.output_names) != len(model.outputs):
        yield "output_names", f"{len(model.output_names)} names for {len(model.outputs)} outputs"
    for index, step in enumerate(model.steps):
        place = f"steps[{index}]"
        if step.index != index:
            yield f"{place}.index", f"is {step.index}"
        yield from _unknown(step.arguments, known, f"{place}.arguments")
        yield from _step_problems(step, place)
        yield from _overlap_problems(step, place)
        yield from _abi_problems(model, step, f"{place}.abi")
        yield from _write_problems(model, step, place)
        yield from _stream_problems(model, step, f"{place}.stream")
    yield from _unit_problems(model)


def _unknown(ids: Iterable[int], known: range, place: str) -> Iterator[_Problem]:
    for position, tensor in enumerate(ids):
        if tensor not in known:
            yield f"{place}[{position}]", f"there is no tensor {tensor}"


def _tensor_problems(model: Model, tensor: Tensor, place: str) -> Iterator[_Problem]:
    if any(extent < 0 for extent in tensor.shape):
        yield f"{place}.shape", f"a negative extent: {list(tensor.shape)}"
    if len(tensor.shape) > MAX_NDIM:
        yield f"{place}.shape", f"{len(tensor.shape)} dimensions; at most {MAX_NDIM}"
    if tensor.size_bytes > MAX_BYTES:
        yield f"{place}.shape", f"{list(tensor.shape)} {tensor.dtype} takes more than {MAX_BYTES} bytes"
    if tensor.data is not None and len(tensor.data) != tensor.size_bytes:
        yield f"{place}.data", f"{len(tensor.data)} bytes; shape and type take {tensor.size_bytes}"
    if tensor.kind.value == "constant" and tensor.data is None and tensor.alias_of is None:
        yield f"{place}.data", "a constant has none"
    if tensor.alias_of is not None and tensor.alias_of not in range(len(model.tensors)):
        yield f"{place}.alias_of", f"there is no tensor {tensor.alias_of}"
    if tensor.offset_bytes < 0 or (tensor.offset_bytes and tensor.alias_of is None):
        yield f"{place}.offset_bytes", f"{tensor.offset_bytes}, which is no distance into another tensor"
    if tensor.quantisation is not None:
        yield from _quantisation_problems(tensor.quantisation, tensor.shape, f"{place}.quantisation")


def _quantisation_problems(
    quantisation: Quantisation, shape: tuple[int, ...], place: str
) -> Iterator[_Problem]:
    wanted = 1
    if quantisation.axis is not None:
        wanted = shape[quantisation.axis] if quantisation.axis in range(len(shape)) else -1
    if not len(quantisation.scale) == len(quantisation.zero_point) == wanted:
        yield place, "scales and zero points do not fit the axis"
    for scale, zero_point in zip(quantisation.scale, quantisation.zero_point, strict=True):
        if not _SCALES[0] <= scale < _SCALES[1]:
            yield place, f"a scale of {scale}, which is no float32 > 0"
        if not -(1 << 31) <= zero_point < 1 << 31:
            yield place, f"a zero point of {zero_point}, which is no int32"


def _alias_problems(model: Model) -> Iterator[_Problem]:
    """Check aliases: chains end, and an alias lies within the storage that it shares."""
    done: dict[int, tuple[int, int]] = {}  # tensor -> root, offset
    for start in model.tensors:
        chain: list[Tensor] = []
        at = start
        while at.id not in done and at.alias_of is not None:
            chain.append(at)
            at = model.tensors[at.alias_of]
            if len(chain) > len(model.tensors):
                yield f"tensors[{start.id}].alias_of", "the aliases form a cycle"
                return
        root, offset = done.setdefault(at.id, (at.id, 0))
        for alias in reversed(chain):
            offset += alias.offset_bytes
            done[alias.id] = root, offset
            room = model.tensors[root].size_bytes
            if offset + alias.size_bytes > room:
                yield (
                    f"tensors[{alias.id}]",
                    f"{alias.size_bytes} bytes at {offset} do not lie within tensor {root}, which has {room}",
                )


def _step_problems(step: Step, place: str) -> Iterator[_Problem]:
    if step.phases < 1:
        yield f"{place}.phases", f"{step.phases}; at least 1"
    if step.spans and len(step.spans) != len(step.arguments):
        yield f"{place}.spans", f"{len(step.spans)} spans for {len(step.arguments)} arguments"
    slots = [w.slot for w in step.workspaces]
    if len(set(slots)) != len(slots) or min(slots, default=0) < 0:
        yield f"{place}.workspaces", f"slots {slots}"
    for span in (*step.spans, *(w.span for w in step.workspaces)):
        if not 0 <= span.first <= span.last < step.phases:
            yield f"{place}.spans", f"phases {span.first} to {span.last} of {step.phases}"
    sizes = [*(w.size_bytes for w in step.workspaces), step.workspace_stack_bytes]
    for size in sizes:
        if not 0 <= size <= MAX_BYTES:
            yield f"{place}.workspaces", f"a size of {size} bytes; 0 to {MAX_BYTES}"
    if not step.is_packed and step.allocated and step.workspace_stack_bytes:
        yield f"{place}.workspaces", "both slots and a stack"
    layer = step.layer
    layers = (layer, *layer.inside) if layer else ()
    counted = layer.counted if layer else ()
    if (
        min(
            (*(n for one in layers for n in (one.number, one.macs)), *(cost for _, cost in counted)),
            default=0,
        )
        < 0
    ):
        yield f"{place}.layer", "a negative number"
    if any(position not in range(len(step.arguments)) for position in step.escaping_args):
        yield f"{place}.escaping_args", f"arguments {list(step.escaping_args)} of {len(step.arguments)}"


def _stream_problems(model: Model, step: Step, place: str) -> Iterator[_Problem]:
    """Check an input that comes row by row: whole rows, a ring in the workspace, no other use of it."""
    stream = step.stream
    if stream is None:
        return
    if step.index or [w.slot for w in step.workspaces] != [0]:
        yield place, "is of the first step alone, which has one workspace"
    elif stream.input not in range(len(model.inputs)):
        yield f"{place}.input", f"there is no input {stream.input}"
    else:
        tensor = model.tensors[model.inputs[stream.input]]
        used = {model.root(i).id for one in model.steps for i in one.arguments} | {
            model.root(i).id for i in model.outputs
        }
        if tensor.id in used or tensor.alias_of is not None:
            yield f"{place}.input", f"{tensor.name[:80]!r} is used as a whole, too"
        if stream.rows < 1 or stream.row_bytes < 1 or stream.rows * stream.row_bytes != tensor.size_bytes:
            yield place, f"{stream.rows} rows of {stream.row_bytes} bytes are not {tensor.size_bytes}"
        end = stream.ring_offset_bytes + stream.ring_rows * stream.row_bytes
        if (
            not 1 <= stream.ring_rows <= stream.rows + 3
            or not 12 <= stream.counter_bytes <= stream.ring_offset_bytes
            or end > step.workspaces[0].size_bytes
            or (stream.counter_bytes | stream.ring_offset_bytes) % 4
        ):
            yield place, "its ring and counters do not lie in the workspace"


def _overlap_problems(step: Step, place: str) -> Iterator[_Problem]:
    seen: set[tuple[int, int]] = set()
    for index, overlap in enumerate(step.overlaps):
        at = f"{place}.overlaps[{index}]"
        pair = overlap.input, overlap.output
        said = f"input {overlap.input}, output {overlap.output} of '{step.name[:80]}'"
        if overlap.input not in range(len(step.inputs)) or overlap.output not in range(len(step.outputs)):
            yield at, f"{said}, which has {len(step.inputs)} inputs and {len(step.outputs)} outputs"
        if overlap.distance_bytes < 0:
            yield f"{at}.distance_bytes", f"{overlap.distance_bytes} for {said}: it is not negative"
        if pair in seen:
            yield at, f"{said} is stated twice"
        seen.add(pair)


def _abi_problems(model: Model, step: Step, place: str) -> Iterator[_Problem]:
    """Check what a plain C function gets: storages that the step uses, its workspaces, addresses in them."""
    used = {model.root(tensor).id for tensor in step.arguments}
    room = {w.slot: w.size_bytes for w in step.workspaces}
    if any(argument.value is None and not argument.struct for argument in step.abi.arguments):
        yield place, "an argument is neither a pointer nor a struct"
    for value in step.abi.values:
        kind, tensor, offset, least, most = value.kind.value, value.tensor, value.offset_bytes, 0, 0
        if kind == "tensor" and (
            tensor not in range(len(model.tensors)) or model.root(tensor or 0).id not in used
        ):
            yield place, f"tensor {tensor} is in no storage of the step's inputs and outputs"
        if (value.slot in room) != (kind == "workspace"):
            yield place, f"there is no {kind} {value.slot}"
        if value.slot is not None:
            least, most = -MAX_BYTES, room.get(value.slot, 0)
        if kind == "symbol":
            if not value.symbol:
                yield place, "a symbol without a name"
            most = MAX_BYTES
        if not least <= offset <= most:
            yield place, f"an address {offset} bytes behind the start of a {kind}; {least} to {most}"


def _write_problems(model: Model, step: Step, place: str) -> Iterator[_Problem]:
    """Nothing writes to a constant."""
    if any(position not in range(len(step.inputs)) for position in step.writes):
        yield f"{place}.writes", f"inputs {list(step.writes)} of {len(step.inputs)}"
        return
    for tensor in (*step.outputs, *(step.inputs[position] for position in step.writes)):
        if model.root(tensor).kind.value == "constant":
            yield place, f"writes to the constant {model.tensors[tensor].name[:80]!r}"


def _unit_problems(model: Model) -> Iterator[_Problem]:
    """Check code members: unique paths inside folders, as generated files lie beside the folders."""
    members = {unit.member for unit in model.units}
    if len(members) != len(model.units):
        yield "units", "two have one name"
    for member in members:
        parts = member.split("/")
        if len(parts) < 2 or not all(parts) or not {".", ".."}.isdisjoint(parts):
            yield "units", f"{member[:80]!r} is not a path inside a folder"
    for index, step in enumerate(model.steps):
        for member in filter(None, (step.abi.header, step.abi.unit)):
            if member not in members:
                yield f"steps[{index}].abi", f"there is no code member {member[:80]!r}"
