# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The values that options take by name."""

from enum import Enum

import typer


class Method(str, Enum):
    em = "em"
    em_map = "em-map"
    vb = "vb"
    vb_em = "vb-em"
    cvb = "cvb"
    hastings = "hastings"
    gibbs = "gibbs"


class Knowledge(str, Enum):
    none = "none"
    discovered = "discovered"
    rules = "rules"
    languages = "languages"


class Heads(str, Enum):
    content = "content"
    function = "function"


class Model(str, Enum):
    dmv = "dmv"
    pcfg = "pcfg"


class Score(str, Enum):
    heads = "heads"
    brackets = "brackets"


class TrainModel(str, Enum):
    pitman_yor = "pitman-yor"


class TrainTags(str, Enum):
    upos = "upos"
    xpos = "xpos"


class Prior(str, Enum):
    dirichlet_fixed = "dirichlet-fixed"
    dirichlet_sampled = "dirichlet-sampled"
    pitman_yor_fixed = "pitman-yor-fixed"
    pitman_yor_sampled = "pitman-yor-sampled"


class PathKind(str, Enum):
    minimal = "minimal"
    maximal = "maximal"
    exact = "exact"


class Unseen(str, Enum):
    rare = "rare"
    test = "test"


class Retag(str, Enum):
    no = "no"
    missing = "missing"
    all = "all"


class Tags(str, Enum):
    upos = "upos"
    xpos = "xpos"
    form = "form"


MOST_CLASSES = 1000


def tags_or_classes(text: str) -> str:
    """upos, xpos, form, or induced:K, classes of words that are learnt.

    :raises typer.BadParameter: for all else.
    """
    kind, _, number = text.partition(":")
    if kind == "induced" and number.isdecimal() and 2 <= int(number) <= MOST_CLASSES:
        return f"induced:{int(number)}"
    if text in [tags.value for tags in Tags]:
        return text
    raise typer.BadParameter(
        f"{text!r} is none of 'upos', 'xpos', 'form', 'induced:K' with K, a number of classes, from 2 to {MOST_CLASSES}"
    )


class Format(str, Enum):
    auto = "auto"
    conllu = "conllu"
    brackets = "brackets"
    tags = "tags"


class Init(str, Enum):
    harmonic = "harmonic"
    uniform = "uniform"
    random = "random"
    supervised = "supervised"
    grammar = "grammar"


class Stops(str, Enum):
    expected = "expected"
    half = "half"
    e_step = "e-step"


class Unknown(str, Enum):
    most_frequent = "most_frequent"
    error = "error"


class Decoder(str, Enum):
    mbr = "mbr"
    viterbi = "viterbi"


class SampleFormat(str, Enum):
    conllu = "conllu"
    brackets = "brackets"


class Averaging(str, Enum):
    all = "all"
    present = "present"


class PointEstimate(str, Enum):
    softmax = "softmax"
    exp = "exp"


class Covariance(str, Enum):
    full = "full"
    diagonal = "diagonal"
