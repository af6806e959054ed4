# SPDX-License-Identifier: Apache-2.0
"""Record a microkernel: operations on virtual registers, loops and repeats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

import msgspec


class Kind(msgspec.Struct, frozen=True):
    """Contents of a register.

    Attributes:
        c_type: its type in C.
        unit: bytes of an element, where it is a pointer.
        file: registers of an instruction set that hold it; "" for the general ones.
        group: the general registers that alone may hold it; "" for all.
    """

    c_type: str
    unit: int = 0
    file: str = ""
    group: str = ""

    @property
    def is_vector(self) -> bool:
        """True for lanes."""
        return self.c_type in (VECTOR.c_type, _GROUP_TYPE)


WORD: Final = Kind("uint32_t ")
WORDS: Final = Kind("const int32_t *", 4)
BYTES: Final = Kind("const int8_t *", 1)
HALVES: Final = Kind("const int16_t *", 2)
OUTPUT_HALVES: Final = Kind("int16_t *", 2)
OUTPUT_WORDS: Final = Kind("int32_t *", 4)
OUTPUT_BYTES: Final = Kind("int8_t *", 1)
ROWS: Final = Kind("const int8_t *const *", 4)
ROWS_OF_WORDS: Final = Kind("const int32_t *const *", 4)
_GROUP_TYPE: Final = "mlf_lanes "
VECTOR: Final = Kind("mlf_vector ", file="vector")
PREDICATE: Final = Kind("uint32_t ", file="predicate")  # a number of lanes
HIGH_WORD: Final = Kind("uint32_t ", file="high")  # registers that few instructions reach
HIGH_WORDS: Final = Kind("const int32_t *", 4, file="high")
HIGH_BYTES: Final = Kind("const int8_t *", 1, file="high")
HIGH_OUTPUT_WORDS: Final = Kind("int32_t *", 4, file="high")
LANES_LEFT: Final = Kind("uint32_t ", group="loop")  # the same in a loop that counts them down
KEPT_WORDS: Final = Kind("const int32_t *", 4, group="kept")  # in a register at all times
LANES: Final = Kind("uint32_t ", group="lanes")  # lanes of groups of registers, which the core decides on
SUMS: Final = {n: Kind(_GROUP_TYPE, file=f"sums{n}") for n in (2, 4, 8)}  # by the registers of 32-bit lanes
LOW: Final = Kind(_GROUP_TYPE, file="low")  # weights, or words
INPUTS: Final = Kind(_GROUP_TYPE, file="inputs")
EVEN_WORD: Final = Kind("uint32_t ", group="even")
NARROW_OUTPUT: Final = Kind("int8_t *", 1, group="odd_low")  # where bytes of wider lanes are stored
NARROW_PLACE: Final = Kind("int8_t *", 1, group="even_low")  # the same, while no EVEN_WORD is live


class Register(msgspec.Struct, eq=False, gc=False):
    """A virtual register, which may be written more than once."""

    name: str
    kind: Kind
    serial: int


class Operation(msgspec.Struct, eq=False, gc=False):
    """A recorded operation: of `operations.MEANINGS`, of memory, of flow, or a mark for readers.

    Attributes:
        results, operands: registers that are written and read. A stream's pointer is an operand and moves on.
        i: constant, offset in bytes, or number of a loop.
        text: of a note.
        step: that the end of a loop counts down.
    """

    name: str
    results: tuple[Register, ...] = ()
    operands: tuple[Register, ...] = ()
    i: int = 0
    text: str = ""
    step: int = 1


MARKS: Final = frozenset({"note", "repeat", "turn", "end_repeat"})
BRANCHES: Final = frozenset({"again", "count_down", "count_lanes"})  # the ends of loops, which go back
SKIPS: Final = frozenset({"skip", "skip_equal", "skip_end"})  # the ends of what may be left out
MOVING: Final = frozenset(
    {"load", "load_back", "store_many"}
)  # operations that move their pointer, the last operand


class Builder:
    """Recorder of a function whose parameters are ``parameters``, in this order."""

    def __init__(self, **parameters: Kind) -> None:
        """Begin with the parameters."""
        self.parameters = tuple(Register(n, k, i) for i, (n, k) in enumerate(parameters.items()))
        self.operations: list[Operation] = []
        self.returned: Kind | None = None
        self._registers = len(parameters)
        self._loops = 0

    def register(self, name: str, kind: Kind = WORD) -> Register:
        """A new register; ``name`` is that of a variable in C."""
        self._registers += 1
        return Register(name, kind, self._registers)

    def note(self, text: str) -> None:
        """A comment in front of what follows."""
        self._add("note", text=text)

    def do(
        self,
        name: str,
        *operands: Register,
        i: int = 0,
        into: Register | None = None,
        kind: Kind = WORD,
        moves: Register | None = None,
    ) -> Register:
        """One operation; its result, which is ``into`` where that is given.

        Args:
            kind: of a new result.
            moves: pointer among the operands that moves ``i`` bytes on.
        """
        result = into or self.register("t", kind)
        self._add(name, (result, moves) if moves else (result,), operands, i)
        return result

    def each(
        self,
        name: str,
        *columns: Register | Sequence[Register],
        i: int = 0,
        into: Sequence[Register] | None = None,
        kind: Kind = WORD,
    ) -> list[Register]:
        """One operation for each row of ``columns``: lists of one length, and registers of all rows."""
        count = max(len(c) for c in columns if not isinstance(c, Register))
        rows = zip(*([c] * count if isinstance(c, Register) else c for c in columns), strict=True)
        return [
            self.do(name, *row, i=i, into=into[k] if into else None, kind=kind) for k, row in enumerate(rows)
        ]

    def vector(
        self, name: str, *operands: Register, i: int = 0, into: Register | None = None, moves: bool = False
    ) -> Register:
        """One operation whose result is a vector; ``moves``: its first operand is a pointer that moves on."""
        return self.do(name, *operands, i=i, into=into, kind=VECTOR, moves=operands[0] if moves else None)

    def update(self, name: str, registers: Sequence[Register], *operands: Register) -> None:
        """One operation that reads and writes several registers."""
        self._add(name, tuple(registers), (*operands, *registers))

    def store(self, name: str, *operands: Register, i: int = 0, moves: Register | None = None) -> None:
        """One operation that only writes to memory."""
        self._add(name, (moves,) if moves else (), operands, i)

    def load(self, stream: Register, count: int = 1, *, apart: bool = False) -> list[Register]:
        """The next words of a stream, from which its pointer moves on.

        Args:
            apart: one instruction a word, which a pipeline may overlap with loads from elsewhere.
        """
        words = [self.register("v") for _ in range(count)]
        for some in [[word] for word in words] if apart else [words]:
            self._add("load", tuple(some), (stream,), int(apart))
        return words

    def load_back(self, stream: Register, count: int) -> list[Register]:
        """The words before a stream's pointer, which moves back to the first of them."""
        words = [self.register("v") for _ in range(count)]
        self._add("load_back", tuple(words), (stream,))
        return words

    def load_at(self, pointer: Register, offset: int, kind: Kind = WORD) -> Register:
        """The word ``offset`` bytes behind a pointer; behind one to bytes it need not be aligned.

        Args:
            kind: of a pointer, where the word is one.
        """
        word = self.register("v", kind)
        self._add("load_at", (word,), (pointer,), offset)
        return word

    def store_many(self, stream: Register, values: Sequence[Register]) -> None:
        """Write words, behind which the stream's pointer moves."""
        self._add("store_many", (), (*values, stream))

    def sums(self, start: Register, count: int) -> list[Register]:
        """Sums that begin with a value."""
        return [self.do("copy", start, into=self.register("sum")) for _ in range(count)]

    def store_byte(self, pointer: Register, value: Register, offset: int) -> None:
        """Write the low byte of a value."""
        self._add("store_byte", (), (value, pointer), offset)

    def advance(self, pointer: Register, size_bytes: int) -> None:
        """Move a pointer on, or back."""
        self._add("advance", (pointer,), (pointer,), size_bytes)

    def place(self, pointer: Register, offset: Register | int, kind: Kind | None = None) -> Register:
        """The pointer to a place ``offset`` bytes further on; ``kind``: another than that of ``pointer``."""
        result = self.register("end", kind or pointer.kind)
        if isinstance(offset, int):
            self._add("place", (result,), (pointer,), offset)
        else:
            self._add("add", (result,), (pointer, offset))
        return result

    @contextmanager
    def loop(self, pointer: Register, end: Register | None) -> Iterator[None]:
        """A body that runs until ``pointer`` is ``end``, at least once; without an end, once."""
        if end is None:
            yield
            return
        self._loops += 1
        number = self._loops
        self._add("label", i=number)
        yield
        self._add("again", (), (pointer, end), number)

    @contextmanager
    def counted(self, count: Register, step: int = 1) -> Iterator[None]:
        """A body that runs until a register, which counts down by ``step``, is 0 or less; at least once."""
        self._loops += 1
        number = self._loops
        self._add("label", i=number)
        yield
        if count.kind == LANES_LEFT:
            self.operations.append(Operation("count_lanes", (count,), (count,), number, step=step))
        else:  # two operations: the register may have to be stored between them
            self.operations.append(Operation("count", (count,), (count,), step=step))
            self._add("count_down", (), (count,), number)

    @contextmanager
    def times(self, count: int) -> Iterator[None]:
        """A body that runs some times; once, it is no loop."""
        with self.counted(self.do("immediate", i=count)) if count > 1 else nullcontext():
            yield

    @contextmanager
    def unless_zero(self, value: Register) -> Iterator[None]:
        """A body that runs if ``value`` is not 0; what it writes for others must have been written before."""
        self._loops += 1
        number = self._loops
        self._add("skip", (), (value,), number)
        yield
        self._add("skip_end", i=number)

    @contextmanager
    def unless_equal(self, one: Register, other: Register) -> Iterator[None]:
        """As `unless_zero`, a body that runs if two registers differ."""
        self._loops += 1
        number = self._loops
        self._add("skip_equal", (), (one, other), number)
        yield
        self._add("skip_end", i=number)

    def give_back(self, value: Register) -> None:
        """Return a value from the function, as its last operation."""
        self.returned = value.kind
        self._add("give_back", (), (value,))

    def leave_if(self, one: Register, other: Register) -> None:
        """Return from the function where two registers are equal."""
        self._add("leave_if", (), (one, other))

    def repeat(self, count: int) -> Iterator[int]:
        """Numbers of repetitions: in assembly one after the other, in C a loop of those that are equal."""
        self._add("repeat", i=count)
        for number in range(count):
            self._add("turn")
            yield number
        self._add("end_repeat")

    def _add(
        self,
        name: str,
        results: tuple[Register, ...] = (),
        operands: tuple[Register, ...] = (),
        i: int = 0,
        text: str = "",
    ) -> None:
        self.operations.append(Operation(name, results, operands, i, text))
