"""A trace as a folder of Parquet files."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Iterable

from ._errors import UnhitchError, needs
from ._trace import TABLES, Trace

__all__ = ["write_parquet"]


def write_parquet(
    trace: Trace,
    folder: str | os.PathLike[str],
    *,
    tables: Iterable[str] = (*TABLES, "stacks", "frames"),
    replace: bool = False,
) -> None:
    """Writes ``folder/TABLE.parquet`` for each table, all or none, compressed with zstd.

    The files have the units and meanings of their columns as metadata (docs/sql.md).
    """
    parquet = needs("pyarrow.parquet", "arrow")
    folder = os.path.abspath(os.fspath(folder))
    if os.path.lexists(folder) and not replace:
        raise UnhitchError(f"{folder}: exists already")
    own = os.path.isdir(folder) and all(name.endswith(".parquet") for name in os.listdir(folder))
    if os.path.lexists(folder) and not own:
        raise UnhitchError(f"{folder}: holds something else, and is not replaced")
    try:
        made = tempfile.mkdtemp(prefix=".unhitch-", dir=os.path.dirname(folder))
    except OSError as error:
        raise UnhitchError(f"{folder}: {error.strerror}") from error
    try:
        for name in tables:
            rows = getattr(trace, name).to_arrow()
            parquet.write_table(rows, os.path.join(made, f"{name}.parquet"), compression="zstd")
        if own:
            shutil.rmtree(folder)
        os.rename(made, folder)
    except OSError as error:
        raise UnhitchError(f"{folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
