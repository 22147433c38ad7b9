"""One table of many traces."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, TypeVar, Union

from . import _native
from ._errors import UnhitchError, needs
from ._table import Stream

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["Paths", "Scan", "paths_of", "scan"]

Paths = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]
T = TypeVar("T")
ENDINGS = (
    *(".hitch", ".etl", ".etl.zip", ".perf.data", ".pftrace", ".perfetto-trace", ".trace.dat"),
    *("/perf.data", "/trace.dat"),
)
"""How the names of traces end that a folder is searched for. LTTng's are folders with `metadata`."""


def paths_of(paths: Paths, passed_over: list[str] | None = None) -> list[str]:
    """The traces that ``paths`` means: a file, a folder, a pattern, or several of them.

    A folder means the traces in it and in its subfolders, known by their names; its other files are
    added to ``passed_over``.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    found: list[str] = []
    for path in [os.fspath(path) for path in paths]:
        if os.path.isdir(path):
            for folder, subfolders, names in os.walk(path):
                if "metadata" in names:
                    found.append(folder)
                    subfolders.clear()
                    continue
                subfolders.sort()
                for file in (os.path.join(folder, name) for name in sorted(names)):
                    if file.endswith(ENDINGS):
                        found.append(file)
                    elif passed_over is not None:
                        passed_over.append(file)
        elif os.path.exists(path):
            found.append(path)
        else:
            matching = sorted(glob.glob(path, recursive=True))
            if not matching:
                raise UnhitchError(f"{path}: there is no such file")
            found += matching
    return found


class Scan(Stream):
    """One table of many traces, read one trace after the other while a library takes its rows.

    The first column, ``trace``, is the file. Memory holds one trace and one batch of rows. Each
    reader reads the files anew.
    """

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """The files that the last reader had to leave out, each with the reason."""
        return self._native.skipped()

    def _read(self, read: Callable[[], T]) -> T:
        """What ``read`` gives; its library's error, if any, in this package's words."""
        try:
            return read()
        except Exception as error:
            words = self._native.failure()
            if words is None:
                raise
            raise UnhitchError(words) from error

    def to_arrow(self) -> pyarrow.Table:
        """As a pyarrow table: all rows of all traces at once."""
        return self._read(super().to_arrow)

    def to_polars(self) -> polars.DataFrame:
        """As a polars data frame: all rows of all traces at once."""
        return self._read(super().to_polars)

    def to_pandas(self) -> pandas.DataFrame:
        """As a pandas data frame: all rows of all traces at once."""
        return self._read(super().to_pandas)

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """The rows in batches of at most 65,536, one trace in memory at a time."""
        reader = needs("pyarrow", "arrow").RecordBatchReader.from_stream(self)
        while True:
            try:
                batch = self._read(reader.read_next_batch)
            except StopIteration:
                return
            yield batch

    def __repr__(self) -> str:
        return f"<unhitch.Scan {self.metadata.get('unhitch.table')}>"


def scan(
    paths: Paths,
    table: str,
    *,
    where: str | None = None,
    by: str | Iterable[str] | None = "none",
    show: str | Iterable[str] | None = None,
    rules: str | os.PathLike[str] | None = None,
    names: bool = True,
    skip_damaged: bool = False,
) -> Scan:
    """One table of many traces: ``stacks``, ``frames``, or one of `TABLES`.

    ``paths`` is a file, a folder, a pattern, or several of them. ``where``, ``by`` and ``show`` are
    those of `Trace.table`; they apply to each trace by itself. A trace that cannot be read raises
    an error when its turn comes; with ``skip_damaged`` it is left out and named in `Scan.skipped`.
    """
    by = words(by)
    if table in ("stacks", "frames"):
        by = None if by == "none" else by
    elif show is None and by == "none":
        show = "all"
    return Scan(
        _native.scan(
            paths_of(paths),
            table,
            filter=where,
            by=by,
            show=words(show),
            rules=rules,
            names=names,
            skip_damaged=skip_damaged,
        )
    )


def words(columns: str | Iterable[str] | None) -> str | None:
    """Columns as the command line takes them."""
    if columns is None or isinstance(columns, str):
        return columns
    return ",".join(columns)
