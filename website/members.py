"""Public callables of the package with their parameters, results, errors and examples."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final, cast

from veilstream import errors
from veilstream.errors import VeilstreamError
from website.docstrings import examples, prose, sentences_about, text_of
from website.glossary import PARAMETERS

LONGEST_DEFAULT: Final = 80
"""Letters of a default; longer ones say more than a reader wants."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its name, annotation, default as text, and what the docstring says of it."""

    name: str
    kind: str
    default: str
    says: str


@dataclass(frozen=True, slots=True)
class Member:
    """A public function, class or method."""

    name: str
    called: Any
    owner: str = ""

    @property
    def text(self) -> str:
        return text_of(self.called)

    @property
    def is_class(self) -> bool:
        return isinstance(self.called, type)

    @property
    def is_error(self) -> bool:
        return isinstance(self.called, type) and issubclass(self.called, Exception)

    @property
    def signature(self) -> inspect.Signature | None:
        try:
            return inspect.signature(self.called)
        except (TypeError, ValueError):
            return None

    @property
    def parameters(self) -> list[Parameter]:
        signature = self.signature
        if signature is None:
            return []
        defaults = _field_defaults(self.called)
        return [
            Parameter(name, _annotation(one.annotation), defaults.get(name) or _default(one), self._says(name))
            for name, one in signature.parameters.items()
            if name not in {"self", "cls"} and not name.startswith("_")
        ]

    def _says(self, parameter: str) -> str:
        return sentences_about(parameter, self.text) or PARAMETERS.get(parameter, "")

    @property
    def returns(self) -> str:
        signature = self.signature
        if self.is_class or signature is None or signature.return_annotation is inspect.Signature.empty:
            return ""
        return _annotation(signature.return_annotation)

    @property
    def raises(self) -> list[str]:
        """Errors that the docstring names; if it names none, those that the code raises."""
        said = [name for name in _ERRORS if f"``{name}``" in prose(self.text)]
        return said or list(dict.fromkeys(_raised_in(self.called)))

    @property
    def examples(self) -> list[str]:
        return examples(self.text)

    def methods(self) -> list[Member]:
        """Public methods and properties that the class or a base of the package defines, in their order."""
        if not self.is_class or self.is_error:
            return []
        found: dict[str, Member] = {}
        bases: tuple[type, ...] = self.called.__mro__
        for base in reversed(bases):
            if base.__module__.startswith("veilstream"):
                for name, value in vars(base).items():
                    method = _unwrapped(value)
                    if not name.startswith("_") and method is not None:
                        found[name] = Member(name, method, self.name)
        return list(found.values())


_ERRORS = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, VeilstreamError)]


def _unwrapped(value: object) -> Callable[..., Any] | None:
    if isinstance(value, property):
        return value.fget
    if isinstance(value, (classmethod, staticmethod)):
        return cast(Callable[..., Any], value.__func__)  # pyright: ignore[reportUnknownMemberType]
    return value if inspect.isfunction(value) else None


def _field_defaults(called: object) -> dict[str, str]:
    if not (isinstance(called, type) and dataclasses.is_dataclass(called)):
        return {}
    made = {field.name: field.default_factory for field in dataclasses.fields(called)}
    return {name: repr(factory()) for name, factory in made.items() if factory is not dataclasses.MISSING}


def _annotation(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return text.replace("veilstream.", "").replace("typing.", "")


def _default(parameter: inspect.Parameter) -> str:
    if parameter.kind in {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}:
        return "any"
    written = "" if parameter.default is inspect.Parameter.empty else repr(parameter.default)
    return written if len(written) <= LONGEST_DEFAULT else "..."


def _raised_in(called: object) -> Iterator[str]:
    bodies = [called] if isinstance(called, FunctionType) else []
    if isinstance(called, type):
        made = (getattr(called, name, None) for name in ("__init__", "__post_init__"))
        bodies = [body for body in made if isinstance(body, FunctionType)]
    for body in bodies:
        if hasattr(body, "__wrapped__"):  # arguments of another type are refused
            yield "InvalidInputError"
        yield from _raised_by(body, depth=2)


def _raised_by(function: FunctionType, depth: int) -> Iterator[str]:
    """Errors that a function raises, or functions of the package that it calls, so many calls deep."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            known = _looked_up(function, name)
            if name in _ERRORS:
                yield name
            elif depth and isinstance(known, FunctionType) and known.__module__.startswith("veilstream"):
                yield from _raised_by(known, depth - 1)


def _looked_up(function: FunctionType, name: str) -> object:
    first, _, rest = name.partition(".")
    found = function.__globals__.get(first)
    return getattr(found, rest, None) if rest else found
