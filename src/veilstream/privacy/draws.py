"""How a stream draws on a population; it loads nothing, so that help answers at once."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

Draw: TypeAlias = Literal["shared", "reserved"]
DRAWS: Final = get_args(Draw)
