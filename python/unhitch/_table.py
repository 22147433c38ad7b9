"""Tables of one trace: rows in memory that other libraries read in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ._errors import needs

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["Column", "Stream", "Table"]


class Column(NamedTuple):
    """What a column holds."""

    name: str
    """Its name."""
    kind: str
    """``duration``, ``time``, ``count``, ``number``, ``text`` or ``stack``; empty for others."""
    unit: str | None
    """``ns`` for durations, ``ns of the trace's clock`` for times, else none."""
    doc: str
    """What it holds, in one line."""


class Stream:
    """Anything with rows, by the Arrow PyCapsule interface.

    pyarrow, polars, pandas and DuckDB take such an object where they take a table::

        pyarrow.table(waits); polars.DataFrame(waits); duckdb.sql("from waits")
    """

    def __init__(self, native: Any) -> None:
        self._native = native

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    @property
    def columns(self) -> list[Column]:
        """The columns, each with its unit and meaning."""
        return [Column(*facts) for facts in self._native.columns()]

    @property
    def metadata(self) -> dict[str, str]:
        """What the schema says: its version, the file, the clock, the covered span."""
        return self._native.metadata()

    def to_arrow(self) -> pyarrow.Table:
        """As a pyarrow table. Numbers stay where they are, nothing is copied."""
        return needs("pyarrow", "arrow").table(self)

    def to_polars(self) -> polars.DataFrame:
        """As a polars data frame. Texts with few distinct values become categoricals."""
        return needs("polars", "polars").DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """As a pandas data frame. Texts with few distinct values become categoricals.

        Numbers become ``Int64``, which holds nanoseconds exactly beside missing values.
        """
        pandas, arrow = needs("pandas", "pandas"), needs("pyarrow", "arrow")
        integers = {arrow.int64(): pandas.Int64Dtype()}
        return self.to_arrow().to_pandas(types_mapper=integers.get)


class Table(Stream):
    """Rows of a trace, in memory, as an Arrow stream. Each reader gets a stream of its own."""

    def __len__(self) -> int:
        return len(self._native)

    @property
    def nbytes(self) -> int:
        """Bytes that the rows occupy."""
        return self._native.nbytes()

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.columns)
        return f"<unhitch.Table {self.metadata.get('unhitch.table')}: {len(self):,} rows ({names})>"
