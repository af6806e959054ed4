# SPDX-License-Identifier: Apache-2.0
"""Problems for the planner's tests, and a slow model of its rules that shares no code with it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from hypothesis import strategies as st

from mlf_sdk.planner import Access, MemoryPlan, PlanOverlap, PlanProblem, PlanStep, PlanTensor, PlanWorkspace

Key = int | tuple[int, int]


def touch(tensor: int, first: int = 0, last: int | None = None) -> Access:
    return Access(tensor=tensor, first_phase=first, last_phase=first if last is None else last)


def scratch(size: int, first: int = 0, last: int | None = None, slot: int = 0) -> PlanWorkspace:
    return PlanWorkspace(
        slot=slot, size_bytes=size, first_phase=first, last_phase=first if last is None else last
    )


def tensors(*sizes: int, aliases: dict[int, int] | None = None) -> tuple[PlanTensor, ...]:
    return tuple(
        PlanTensor(id=index, size_bytes=size, alias_of=(aliases or {}).get(index))
        for index, size in enumerate(sizes)
    )


def intervals(spans: list[tuple[int, int, int]], alignment: int = 1) -> PlanProblem:
    """A problem that is nothing but (size, first, last) stretches: the workspaces of one step."""
    works = tuple(scratch(size, first, last, slot) for slot, (size, first, last) in enumerate(spans))
    step = PlanStep(phases=1 + max(last for _, _, last in spans), workspaces=works)
    return PlanProblem(tensors=(), inputs=(), outputs=(), steps=(step,), alignment=alignment)


@st.composite
def problems(draw: st.DrawFn, max_steps: int = 8, max_size: int = 100) -> PlanProblem:
    """Any legal problem: in-place writes, aliases, unread tensors, empty ones, odd phases."""
    sizes = st.integers(0, max_size)
    count_inputs = draw(st.integers(0, 3))
    made = [PlanTensor(id=7 * i + 1, size_bytes=draw(sizes)) for i in range(count_inputs)]
    inputs = tuple(tensor.id for tensor in made)
    steps = []
    for number in range(draw(st.integers(0, max_steps))):
        phases = draw(st.integers(1, 4))

        def access(tensor: int, phases: int = phases) -> Access:
            first = draw(st.integers(0, phases - 1))
            return touch(tensor, first, draw(st.integers(first, phases - 1)))

        reads = [access(t.id) for t in draw(st.lists(st.sampled_from(made), max_size=3))] if made else []
        writes = []
        for _ in range(draw(st.integers(0, 2))):
            kind = draw(st.integers(0, 5))
            if made and kind == 0:  # in place
                writes.append(access(draw(st.sampled_from(made)).id))
                continue
            size, alias = draw(sizes), None
            if made and kind == 1:
                alias = draw(st.sampled_from(made))
                size = draw(st.integers(0, alias.size_bytes))
            new = PlanTensor(id=1000 - len(made), size_bytes=size, alias_of=alias.id if alias else None)
            made.append(new)
            writes.append(access(new.id))
        works = []
        for slot in range(draw(st.integers(0, 2))):
            span = access(0)
            works.append(scratch(draw(sizes), span.first_phase, span.last_phase, slot * 3 + number % 2))
        steps.append(
            PlanStep(phases=phases, reads=tuple(reads), writes=tuple(writes), workspaces=tuple(works))
        )
    outputs = draw(st.lists(st.sampled_from(made), max_size=3)) if made else []
    return PlanProblem(
        tensors=tuple(draw(st.permutations(made))),
        inputs=inputs,
        outputs=tuple(tensor.id for tensor in outputs),
        steps=tuple(steps),
        alignment=draw(st.sampled_from([1, 4, 16])),
        keep_inputs=draw(st.booleans()),
        reorder=draw(st.booleans()),
    )


@st.composite
def overlapping_problems(draw: st.DrawFn, max_steps: int = 8, max_size: int = 100) -> PlanProblem:
    """Problems with steps whose outputs may lie over inputs, at any distances."""
    problem = draw(problems(max_steps=max_steps, max_size=max_size))
    steps = []
    for step in problem.steps:
        pairs = list(itertools.product({a.tensor for a in step.reads}, {a.tensor for a in step.writes}))
        chosen = draw(st.lists(st.sampled_from(sorted(pairs)), unique=True)) if pairs else []
        overlaps = [
            PlanOverlap(input=x, output=y, distance_bytes=draw(st.integers(0, max_size // 2)))
            for x, y in chosen
        ]
        steps.append(dataclasses.replace(step, overlaps=tuple(overlaps)))
    return dataclasses.replace(problem, steps=tuple(steps))


def allowed_overlaps(problem: PlanProblem, order: tuple[int, ...]) -> dict[tuple[Key, Key], int]:
    """Distances by output and input: the step is the first to use the one and the last to use the other."""
    points = timeline(problem, order)
    used = [touched(problem, point) for point in points]
    found: dict[tuple[Key, Key], int] = {}
    for number, step in enumerate(problem.steps):
        written = {root_of(problem, a.tensor) for a in step.writes}
        for overlap in step.overlaps:
            x, y = root_of(problem, overlap.input), root_of(problem, overlap.output)
            of_x = {
                points[t][0] for t, keys in enumerate(used) if x in keys and t >= _last_of(points, number)
            }
            of_y = {
                points[t][0] for t, keys in enumerate(used) if y in keys and t < points.index((number, 0))
            }
            if x not in written and not of_x and not of_y:
                found[y, x] = max(found.get((y, x), 0), overlap.distance_bytes)
    return found


def _last_of(points: list[tuple[int, int]], step: int) -> int:
    return max(t for t, point in enumerate(points) if point[0] == step) + 1


def may_lie(
    low: tuple[Key, int, int], high: tuple[Key, int, int], allowed: dict[tuple[Key, Key], int]
) -> bool:
    """Check two buffers that are live at one time, each as key, offset and bytes."""
    (a, at_a, size_a), (b, at_b, size_b) = low, high
    if at_a + size_a <= at_b or at_b + size_b <= at_a:
        return True
    return any(
        (y, x) in allowed and at_y <= at_x - allowed[y, x]
        for y, at_y, x, at_x in ((a, at_a, b, at_b), (b, at_b, a, at_a))
    )


def root_of(problem: PlanProblem, tensor: int) -> int:
    alias = {item.id: item.alias_of for item in problem.tensors}
    while (above := alias[tensor]) is not None:
        tensor = above
    return tensor


def timeline(problem: PlanProblem, order: tuple[int, ...]) -> list[tuple[int, int]]:
    """(step, phase) of every point in time; step -1 is the caller's writing, -2 his reading."""
    points = [(-1, 0)]
    for step in order:
        points += [(step, phase) for phase in range(problem.steps[step].phases)]
    return [*points, (-2, 0)]


def touched(problem: PlanProblem, point: tuple[int, int]) -> set[Key]:
    """What is used at one point in time: roots of tensors, and workspaces."""
    step, phase = point
    if step == -1:
        return {root_of(problem, tensor) for tensor in problem.inputs}
    if step == -2:
        ends = problem.outputs + (problem.inputs if problem.keep_inputs else ())
        return {root_of(problem, tensor) for tensor in ends}
    item = problem.steps[step]
    found: set[Key] = set()
    for access in item.reads + item.writes:
        if access.first_phase <= phase <= access.last_phase:
            found.add(root_of(problem, access.tensor))
    for work in item.workspaces:
        if work.first_phase <= phase <= work.last_phase:
            found.add((step, work.slot))
    return found


def live_sets(problem: PlanProblem, order: tuple[int, ...]) -> list[dict[Key, int]]:
    """Sizes of the non-empty buffers that are live at each point in time."""
    size: dict[Key, int] = {tensor.id: tensor.size_bytes for tensor in problem.tensors}
    for number, step in enumerate(problem.steps):
        size.update({(number, work.slot): work.size_bytes for work in step.workspaces})
    used = [touched(problem, point) for point in timeline(problem, order)]
    lives: list[dict[Key, int]] = []
    for now in range(len(used)):
        before = set().union(*used[: now + 1])
        after = set().union(*used[now:])
        lives.append({key: size[key] for key in before & after if size[key]})
    return lives


def room_for(live: dict[Key, int], alignment: int) -> int:
    """The least bytes that hold some buffers at once."""
    rounded = {key: -(-size // alignment) * alignment for key, size in live.items()}
    paddings = [rounded[key] - live[key] for key in live]
    return sum(rounded.values()) - max(paddings, default=0)


def bound_of(problem: PlanProblem, order: tuple[int, ...]) -> int:
    return max(room_for(live, problem.alignment) for live in live_sets(problem, order))


def legal_orders(problem: PlanProblem) -> Iterator[tuple[int, ...]]:
    """All orders in which every step sees the same writes to what it uses as in the original order."""
    for order in itertools.permutations(range(len(problem.steps))):
        if is_legal(problem, order):
            yield order


def is_legal(problem: PlanProblem, order: tuple[int, ...]) -> bool:
    if sorted(order) != list(range(len(problem.steps))):
        return False
    for later, earlier in itertools.combinations(range(len(problem.steps)), 2):
        first, second = (problem.steps[number] for number in (later, earlier))
        if order.index(later) < order.index(earlier):
            continue
        wrote = [{root_of(problem, a.tensor) for a in step.writes} for step in (first, second)]
        read = [{root_of(problem, a.tensor) for a in step.reads} for step in (first, second)]
        if wrote[0] & (wrote[1] | read[1]) or wrote[1] & read[0]:
            return False
    return True


def offset_of(plan: MemoryPlan, key: Key) -> int:
    return plan.workspace_offsets[key[0]][key[1]] if isinstance(key, tuple) else plan.tensor_offsets[key]


def least_arena(problem: PlanProblem, order: tuple[int, ...]) -> int:
    """The smallest arena of one order, by trying every offset of every buffer."""
    lives = live_sets(problem, order)
    size = {key: bytes_ for live in lives for key, bytes_ in live.items()}
    keys = sorted(size, key=lambda key: -size[key])
    clash = {key: {other for live in lives if key in live for other in live} - {key} for key in keys}
    allowed = allowed_overlaps(problem, order)
    height = max(0 if allowed else bound_of(problem, order), *size.values(), 0)
    while not _fits(keys, {}, size, clash, allowed, problem.alignment, height):
        height += 1
    return height


def _fits(
    keys: list[Key],
    placed: dict[Key, int],
    size: dict[Key, int],
    clash: dict[Key, set[Key]],
    allowed: dict[tuple[Key, Key], int],
    alignment: int,
    height: int,
) -> bool:
    if len(placed) == len(keys):
        return True
    key = keys[len(placed)]
    for offset in range(0, height - size[key] + 1, alignment):
        if all(
            may_lie((key, offset, size[key]), (other, placed[other], size[other]), allowed)
            for other in clash[key]
            if other in placed
        ) and _fits(keys, {**placed, key: offset}, size, clash, allowed, alignment, height):
            return True
    return False
