"""What the rest of the package may rely on in a mechanism: traits, which stand in its own class."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Traits:
    """The traits of a mechanism; a class has one by an attribute of the same name, and else the default.

    >>> from veilstream.mechanisms.streams import RetroactiveGrouping, Uniform
    >>> Traits.of(Uniform()).oblivious, Traits.of(RetroactiveGrouping).window_sums
    (True, True)
    """

    oblivious: bool = False
    """It never chooses by data, so simulated runs can be made at once: noise has the shape (runs, bins)."""
    batchable: bool = False
    """It chooses by data only through the meter: see ``is_batchable``."""
    per_timestamp: bool = False
    """It pays bin by bin and timestamp by timestamp, each up to its share of the window: see ``accountant_for``."""
    window_sums: bool = False
    """It publishes the sum of as many last steps as its parameter ``window`` says, not the counts of one step."""
    cumulative: bool = False
    """It publishes totals of all steps so far, not the counts of one step."""
    needs_weights: bool = False
    """It needs public weights of the steps, so it cannot be tried on a stream without them."""
    gaussian_only: bool = False
    """A histogram that draws Gaussian noise alone, so that next to nothing need be kept for pure charges."""
    sparse: bool = False
    """It also publishes records of a domain too large to list, with ``estimate_records``."""
    modelled: bool = False
    """It publishes what models make of its looks, and follows what no model foresaw: between the errors on counts
    that stand still and on counts that jump lie those on all others."""
    unbiased: bool = False
    """A histogram whose values are the counts plus noise and nothing else: their intervals hold the counts."""

    @property
    def single_steps(self) -> bool:
        """Whether a release is of one step, and not of several that another release shares."""
        return not (self.window_sums or self.cumulative)

    @classmethod
    def of(cls, mechanism: object) -> Traits:
        """The traits of a mechanism or of its class; one that depends on parameters is not known of the class."""
        stated = {trait.name: getattr(mechanism, trait.name, None) for trait in fields(cls)}
        return cls(**{name: value for name, value in stated.items() if isinstance(value, bool)})


@runtime_checkable
class HasVariants(Protocol):
    """A mechanism that is several mechanisms by one of its parameters, each worth a trial in a comparison."""

    @classmethod
    def variants(cls, steps: int) -> list[dict[str, Any]]:
        """Settings to try where a budget must last for ``steps`` steps."""
        ...
