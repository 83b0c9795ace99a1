"""Values that must not show themselves: in a message, a pickle, a copy or the report of a crash."""

from __future__ import annotations

import traceback
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NoReturn

from veilstream.errors import SealedAccessError


class Private:
    """Base of what holds secrets or exact rows: it prints its name alone and is neither pickled nor copied."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _refuse(self, *_: Any) -> NoReturn:
        raise SealedAccessError(
            f"{type(self).__name__}: it is private and can be neither pickled nor copied", outcome="nothing was written"
        )

    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse


@contextmanager
def cleared_on_error() -> Generator[None]:
    """On an error, clear the local variables of the functions that were called inside.

    A report of a crash may record the variables of every function on the way, and those hold exact rows. The lines
    stay in the report. The function that uses this block keeps its variables, so it must hold nothing private.
    """
    try:
        yield
    except BaseException as error:
        seen: set[int] = set()
        link: BaseException | None = error
        while link is not None and id(link) not in seen:
            seen.add(id(link))
            traceback.clear_frames(link.__traceback__)
            link = link.__cause__ or link.__context__
        raise
