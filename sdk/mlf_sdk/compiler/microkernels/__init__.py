# SPDX-License-Identifier: Apache-2.0
"""Inner loops of kernels, recorded once and written as assembly and as C.

A microkernel is a function that records operations on virtual registers in a `builder.Builder`:

    def record(pixels: int, words: int, epilogue: Epilogue) -> Builder:
        b = Builder(x=WORDS, w=WORDS, y=OUTPUT_BYTES, n=WORD)    # the C function's parameters
        x, w, y, n = b.parameters
        end = b.place(y, n)                                      # pointers: place, advance
        with b.loop(y, end):                                     # until y is end
            sums = b.sums(b.load(w, 1)[0], pixels)               # load: the next words of a stream
            for number in b.repeat(words):                       # unrolled; in C a loop
                b.note(f"weights {2 * number}, {2 * number + 1}")
                weights = b.load(w, 1)[0]
                b.each("smlad", b.load(x, pixels), weights, sums, into=sums)
            b.note("requantise")
            for pixel, value in enumerate(epilogue.record(b, sums, b.load(w, epilogue.words))):
                b.store_byte(y, value, pixel * 64)
            b.advance(y, 1)
            b.advance(x, -4 * words * pixels)
        return b

`function.recorded` makes a C function of it, once for all layers: assembly for one instruction set and, for
all others, C from the same operations. Registers need no thought: write what is computed, in the order in
which it is to run. What does not fit into registers goes to the stack, where it costs the least. Loads side
by side become one, copies that only begin a sum vanish, an advance moves into the stores before it, and the
count of a loop to its top where no flags carry it; nothing else is reordered: how much is loaded ahead is up
to the microkernel, and decides how many registers are busy. A result may lie in the register of an operand
that is not used again, so operations of several instructions write it last.

An operation is a row of `operations.MEANINGS` and its spelling a row of an instruction set's file in
``board_templates/instruction_sets``; one that no other instruction set has can state its meaning there.
Operations on lanes of vectors, on memory, or with several results have assignments as their meaning
(`assignments`). A kind of register may ask for another file of registers (vectors, predicates) or a group of
the general ones (`builder.Kind`); an instruction set may extend another.
Tests run operations in numpy (`tests/support/interpret.py`) and compare that with the C and the assembly.
"""
