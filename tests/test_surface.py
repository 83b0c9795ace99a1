"""The public surface: what ``import veilstream`` offers, when it loads it, and that nothing of it is missing."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import veilstream as vs
from veilstream import errors
from veilstream.data import axes
from veilstream.errors import VeilstreamError
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.streams import STREAMS

KEPT = {
    "Domain", "Guarantee", "HISTOGRAMS", "Ledger", "Publisher", "STREAMS", "VeilstreamError", "noise", "simulate",
    "simulate_many",
}  # fmt: skip
"""Names that scripts of users rely on."""
HEAVY = ("numpy", "scipy", "polars", "pyarrow", "pydantic", "sqlalchemy", "matplotlib", "typer", "rich")


def imported_for_checkers() -> dict[str, str]:
    """Names in the block that type checkers read, with the module of each."""
    tree = ast.parse(Path(inspect.getfile(vs)).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def test_the_table_the_imports_for_checkers_and_all_agree() -> None:
    home = {name: module for module, names in vs._EXPORTS.items() for name in names.split()}
    assert imported_for_checkers() == home
    assert set(vs.__all__) == {*home, "__version__"}


def test_all_is_sorted_as_the_linter_sorts_it() -> None:
    def rank(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    assert vs.__all__ == sorted(vs.__all__, key=rank)


@pytest.mark.parametrize("name", [name for name in vs.__all__ if name not in {"__version__", "noise"}])
def test_a_public_name_is_the_object_that_its_module_exports(name: str) -> None:
    module = import_module(vs._HOME[name])
    assert getattr(vs, name) is getattr(module, name)
    assert name in getattr(module, "__all__", [name])


def test_every_error_every_mechanism_and_every_axis_is_public() -> None:
    every_error = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, VeilstreamError)
    }
    mechanisms = {kind.__name__ for catalogue in (STREAMS, HISTOGRAMS) for kind in catalogue.values()}
    kinds_of_axis = {kind.__name__ for kind in axes.Axis.__args__}
    assert len(every_error) > 10
    assert len(mechanisms) == len(STREAMS) + len(HISTOGRAMS)
    assert every_error | mechanisms | kinds_of_axis | KEPT <= set(vs.__all__)


def test_a_misspelt_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Publishr"):
        vs.Publishr  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_loads_none_of_its_dependencies() -> None:
    program = f"import sys, veilstream; print([name for name in {HEAVY!r} if name in sys.modules])"
    seen = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert seen.stdout.strip() == "[]"


def test_the_names_are_listed_before_they_are_loaded() -> None:
    assert set(vs.__all__) <= set(dir(vs))
