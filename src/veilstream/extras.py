"""Parts that need packages which are not installed with veilstream alone, and how to get them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from veilstream.errors import MissingExtraError

PLOT: Final = "plot"


def require(module: str, purpose: str, extra: str) -> None:
    """Refuse what needs an absent package, before anything is spent, and say how to install it.

    >>> require("no_such_package", "teleporting", "teleport")
    Traceback (most recent call last):
    ...
    veilstream.errors.MissingExtraError: teleporting needs: pip install 'veilstream[teleport]'
    """
    if find_spec(module.partition(".")[0]) is None:
        cure = f"pip install 'veilstream[{extra}]'"
        raise MissingExtraError(f"{purpose} needs: {cure}", name=extra, next_step=cure)


def drawing(part: str = "") -> Any:
    """A module of Matplotlib, which is slow to load and needed for pictures alone."""
    require("matplotlib", "drawing pictures", PLOT)
    return import_module(f"matplotlib.{part}" if part else "matplotlib")
