"""The one exception class, and how a missing package is reported."""

from __future__ import annotations

import importlib
from types import ModuleType

from ._native import UnhitchError

__all__ = ["UnhitchError", "needs"]


def needs(name: str, extra: str) -> ModuleType:
    """The module ``name``; an `UnhitchError` that says how to get it where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnhitchError(
            f"{name} is needed for this and is not installed: pip install 'unhitch[{extra}]'"
        ) from error
