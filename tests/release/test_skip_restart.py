"""A stream goes on after a skipped step and a restart: what the accountant knows is what the ledger recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams import DSAT, BudgetAbsorption, ModelBased, RetroactiveGrouping, Uniform

CASES: dict[str, tuple[StreamMechanism[Any], int]] = {
    "grouping at event level": (RetroactiveGrouping(window=4), 1),
    "grouping as printed": (RetroactiveGrouping(window=4, revise=False), 1),
    "grouping under a window": (RetroactiveGrouping(window=4), 5),
    "budget absorption": (BudgetAbsorption(), 5),
    "dsat": (DSAT(), 8),
    "uniform": (Uniform(), 5),
    "models in blocks": (ModelBased(periods=(3,)), 5),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_stream_goes_on_after_a_skip_and_a_restart(name: str, restarted: bool, tmp_path: Path) -> None:
    mechanism, w = CASES[name]
    counts = np.array([40, 7, 0])

    def publisher() -> vs.Publisher[Any]:
        return vs.Publisher(3, vs.Guarantee(1, w=w), mechanism, tmp_path / "ledger.db")

    one = publisher()
    for _ in range(6):
        one.feed(counts)
    one.skip()
    if restarted:
        one.close()
        one = publisher()
    for step in range(7, 30):
        assert one.feed(counts).t == step
    one.close()
