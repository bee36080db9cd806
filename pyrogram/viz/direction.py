# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which way a sentence is written."""

import unicodedata
from collections.abc import Iterable


def is_right_to_left(forms: Iterable[str]) -> bool:
    """Whether most letters of a sentence are of a script that is written from right to left, such as Hebrew or Arabic.

    A letter's direction is its bidirectional class in Unicode: R and AL, or L. Digits and marks have none of these.
    """
    classes = [unicodedata.bidirectional(character) for form in forms for character in form]
    return sum(c in ("R", "AL") for c in classes) > classes.count("L")
