"""One opaque base class for everything that holds exact private data or secret noise.

The exact part, the *payload*, lies in a slot whose descriptor is taken off the class: no attribute, no ``vars``, no
copy, no pickle and no dataclass helper reaches it. Only ``veilstream.trusted.opening`` holds the descriptor, and an
import contract lets only ``veilstream.trusted`` import that module or this one.
"""

from __future__ import annotations

from types import FunctionType, MemberDescriptorType
from typing import Any, ClassVar, Final, Generic, NoReturn, TypeVar

from veilstream.errors import SealedAccessError
from veilstream.trusted.frames import hide_frames

T = TypeVar("T")


class Opaque(Generic[T]):
    """Holds one exact payload and refuses every ordinary way to read it.

    Public methods of a subclass, and its ``__init__``, are wrapped by ``hide_frames``. Properties are not: they may
    read nothing of the payload but its public shape.
    """

    __slots__ = ("_payload",)
    contents: ClassVar[str] = "values"
    """What the refusal says that cannot be read."""

    def __init__(self, payload: T) -> None:
        PAYLOAD.__set__(self, payload)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__slots__" not in cls.__dict__:
            raise TypeError(f"{cls.__name__}: a sealed class needs __slots__, so that it has no __dict__")
        for name, method in list(vars(cls).items()):
            if isinstance(method, FunctionType) and (name.startswith("__") or not name.startswith("_")):
                setattr(cls, name, hide_frames(method))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise SealedAccessError(f"exact {self.contents} cannot be read; ask the Meter for a noisy answer")

    __array__ = __iter__ = __len__ = __getitem__ = __contains__ = __reversed__ = __bool__ = _refuse
    __float__ = __int__ = __index__ = __complex__ = __round__ = __trunc__ = __floor__ = __ceil__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __copy__ = __deepcopy__ = __replace__ = _refuse
    __reduce__ = __reduce_ex__ = __getstate__ = __setstate__ = _refuse


PAYLOAD: Final[MemberDescriptorType] = Opaque.__dict__["_payload"]
"""The descriptor of the slot, which is the only way to what a sealed object holds."""
del Opaque._payload  # type: ignore[attr-defined]
