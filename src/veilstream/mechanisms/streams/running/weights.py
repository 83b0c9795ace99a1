"""By what the rows of running totals and moving sums read the past."""

from __future__ import annotations

from enum import StrEnum

from veilstream.errors import InvalidInputError


class Weights(StrEnum):
    """A few decaying buffers, or groups of timestamps as in streams of earlier versions."""

    BUFFERS = "buffers"
    GROUPS = "groups"

    @classmethod
    def of(cls, value: object, mechanism: object) -> Weights:
        """The member that a parameter names.

        >>> Weights.of("groups", "a mechanism")
        <Weights.GROUPS: 'groups'>
        """
        try:
            return cls(str(value))
        except ValueError:
            raise InvalidInputError(
                name="weights", of=type(mechanism).__name__, value=value, limit="buffers or groups"
            ) from None
