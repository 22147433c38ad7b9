"""A recording, opened."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Iterable

from . import _native
from ._errors import UnhitchError, needs
from ._scan import words
from ._table import Table

if TYPE_CHECKING:
    import duckdb

__all__ = ["TABLES", "Trace", "Why", "describe", "open"]

TABLES = (
    "switches",
    "waits",
    "wakes",
    "samples",
    "events",
    "marks",
    "stalls",
    "lifetimes",
    "threads",
    "cpus",
    "counters",
)
"""The tables with rows of their own; ``stacks`` and ``frames`` say what ids in them mean."""


class Why(dict):  # type: ignore[type-arg]
    """The answer: a dictionary by the contract of ``unhitch why --json``, and in words.

    ``why["stalls"][0]["cause"]["function"]``, ``why.text``.
    """

    text: str
    """The answer in words, as ``unhitch why`` prints it."""

    def __init__(self, answer: dict[str, Any], text: str) -> None:
        super().__init__(answer)
        self.text = text

    @property
    def stalls(self) -> list[dict[str, Any]]:
        """The stalls, worst first."""
        return self["stalls"]

    def __str__(self) -> str:
        return self.text


class Trace:
    """A recording, read. It is immutable, and may be used from several threads at once."""

    def __init__(self, native: Any, path: str) -> None:
        self._native = native
        self.path = path
        """The file, as it was named."""

    def why(
        self,
        *,
        victim: str | int | None = None,
        start: float | None = None,
        end: float | None = None,
        top: int = 10,
    ) -> Why:
        """What hung, and what caused it: the ``top`` worst stalls, in words the worst one.

        ``victim`` is a thread's or process's name, its pid or tid. ``start`` and ``end`` are seconds
        since the trace's origin, like all times that the program prints.
        """
        name = None if victim is None else str(victim)
        answer, text = self._native.why(victim=name, from_=start, to=end, top=top)
        return Why(json.loads(answer), text)

    def table(
        self,
        name: str,
        *,
        where: str | None = None,
        by: str | Iterable[str] | None = "none",
        show: str | Iterable[str] | None = None,
        sort: str | None = None,
        top: int | None = None,
        start: float | None = None,
        end: float | None = None,
    ) -> Table:
        """A table, by the grammar of ``unhitch table`` (docs/tables.md).

        ``where`` is a filter (``"waited > 5ms and reason = lock"``). ``by`` are columns to group by;
        then ``show`` may have ``count``, ``sum:COLUMN``, ``avg:``, ``min:``, ``max:``. Single rows
        have all columns, unless ``show`` names some. ``by=None`` groups as the program does by
        default. ``top`` is the maximum of rows. ``start`` and ``end`` are seconds since the trace's
        origin. A name may be written with spaces or underscores.

        Durations (``waited_ns``) and times (``woken_at_ns``) are integers, nanoseconds; times are on
        the trace's clock.
        """
        if name in ("stacks", "frames"):
            raise UnhitchError(f"`{name}` is always whole: trace.{name}")
        by = words(by)
        if show is None and by == "none":
            show = "all"
        return Table(
            self._native.table(
                name,
                filter=where,
                by=by,
                show=words(show),
                sort=sort,
                top=top,
                from_=start,
                to=end,
            )
        )

    @property
    def switches(self) -> Table:
        """A row per switch-in of a thread, with the time off the CPU before it."""
        return self.table("switches")

    @property
    def waits(self) -> Table:
        """A row per sleep: who, where, for how long (``waited_ns``), and who ended it."""
        return self.table("waits")

    @property
    def wakes(self) -> Table:
        """A row per wake-up: by whom, from where, and the sleep that it ended."""
        return self.table("wakes")

    @property
    def samples(self) -> Table:
        """A row per CPU sample. Samples of idle CPUs are left out."""
        return self.table("samples")

    @property
    def events(self) -> Table:
        """A row per event of any provider, with its fields."""
        return self.table("events")

    @property
    def marks(self) -> Table:
        """Marks of people and programs: notes, keys, mouse buttons, windows that did not answer."""
        return self.table("marks")

    @property
    def stalls(self) -> Table:
        """A row per stall, as `why` finds them, worst first."""
        return self.table("stalls")

    @property
    def lifetimes(self) -> Table:
        """A row per process."""
        return self.table("lifetimes")

    @property
    def threads(self) -> Table:
        """A row per thread: how long it ran, was runnable and slept."""
        return self.table("threads")

    @property
    def cpus(self) -> Table:
        """A row per CPU: how long it was busy and idle."""
        return self.table("cpus")

    @property
    def counters(self) -> Table:
        """What each counter of the kernel grew by between two readings: pressure, disks."""
        return self.table("counters")

    @property
    def stacks(self) -> Table:
        """The stacks that ``wait_stack_id``, ``wake_stack_id`` and ``stack_id`` stand for."""
        return Table(self._native.stacks())

    @property
    def frames(self) -> Table:
        """The functions that ``frame_ids`` of `stacks` stand for."""
        return Table(self._native.frames())

    @property
    def info(self) -> dict[str, Any]:
        """The summary by the contract of ``unhitch info --json``."""
        return json.loads(self._native.info_json())

    @property
    def warnings(self) -> list[str]:
        """Everything that is damaged, lost or guessed, one sentence each."""
        return self._native.warnings()

    def connect(self, tables: Iterable[str] | None = None) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection in which each table of the trace (or only ``tables``) is a view."""
        connection = needs("duckdb", "sql").connect()
        for name in (*TABLES, "stacks", "frames") if tables is None else tables:
            connection.register(name, getattr(self, name).to_arrow())
        return connection

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """The answer to an SQL query over the trace's tables, by DuckDB.

        ``trace.sql("select …").fetchall()``, ``.df()``, ``.pl()``, ``.arrow()``. Only the tables that
        the text of the query names are computed. docs/sql.md describes the tables.
        """
        duckdb = needs("duckdb", "sql")
        text = query.lower()
        named = [name for name in (*TABLES, "stacks", "frames") if name in text]
        try:
            return self.connect(named).sql(query)
        except duckdb.Error as error:
            raise UnhitchError(str(error)) from error

    def __repr__(self) -> str:
        return f"<unhitch.Trace {self.path}>"


def open(  # noqa: A001
    path: str | os.PathLike[str],
    *,
    together_with: Iterable[str | os.PathLike[str]] = (),
    rules: str | os.PathLike[str] | None = None,
    names: bool = True,
) -> Trace:
    """Reads a recording: a ``NAME.hitch``, a ``perf.data``, a Windows ``NAME.etl``.

    ``together_with`` are the other sessions of the same Windows recording. ``rules`` is a file with
    your own wait rules. With ``names=False``, functions that the file does not name stay addresses;
    otherwise this machine's programs name them, where those are the ones that were recorded.
    """
    path = os.fspath(path)
    others = [os.fspath(other) for other in together_with]
    return Trace(_native.open(path, with_=others, rules=rules, names=names), path)


def describe(table: str | None = None) -> str:
    """All tables, or one, with their columns, as ``unhitch table --columns`` prints them."""
    return _native.describe(table)
