"""The program `unhitch`, for what needs rights: recording."""

from __future__ import annotations

import os
import shutil

from ._errors import UnhitchError

__all__ = ["program"]


def program(named: str | os.PathLike[str] | None = None) -> str:
    """The path of the program: ``named``, else ``$UNHITCH``, else the one on ``PATH``."""
    wanted = os.fspath(named) if named is not None else os.environ.get("UNHITCH") or "unhitch"
    found = shutil.which(wanted)
    if found is None:
        raise UnhitchError(
            f"{wanted}: the program unhitch is needed to record; put it on PATH, or name it in the "
            "environment variable UNHITCH"
        )
    return found
