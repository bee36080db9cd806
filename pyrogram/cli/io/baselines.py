# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What every table says of a result that is no better than attaching each word to its neighbour."""

from __future__ import annotations

from collections.abc import Mapping


def below_baselines(label: str, directed: float | None, others: Mapping[str, float | None]) -> list[str]:
    """A sentence for each baseline that gets more heads right than a model, or none.

    :param directed: the model's directed accuracy, a fraction.
    :param others: that of attach-left and attach-right.
    """
    return [
        f"{label} is below {name}: {100 * directed:.1f} % of the heads of all sentences are right, where {name}, which "
        f"has learnt nothing, has {100 * accuracy:.1f} %."
        for name, accuracy in others.items()
        if directed is not None and accuracy is not None and directed < accuracy
    ]
