# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Parameters of compiled functions, and variables of a block and of the lane at hand, that many functions have."""

from ..code.expressions import Array, Name

LENGTHS, ORDER = Array("lengths", "int"), Array("order", "int")  # of all sentences; those at hand, the longest first
BATCH, COUNT = Name("batch", "int"), Name("count", "int")  # how many these are
PITCH = Name("pitch", "int")  # cells of a row of positions
SEED = Name("seed", "int")

N = Name("n", "int")  # words of the longest sentence of the block
BEGIN, HERE = Name("begin.of", "int"), Name("here", "int")  # where it begins in the order; how many sentences it has
RAGGED = Name("ragged", "int")  # whether some lanes have a shorter sentence, or none
SPOILT = Name("spoilt", "int")  # whether cells have been left that are infinite or no numbers
Z, Z_EXPONENT = Name("z", "int"), Name("z.exponent", "int")  # cells of the goal
ENDS = Name("ends", "int")  # here begin the cells that are one in lanes of sentences of n words

LANE, B = Name("lane", "int"), Name("b", "int")  # the lane, and its sentence
AT_N = Name("at.n", "int")  # words of this
