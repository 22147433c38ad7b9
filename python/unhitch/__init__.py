"""Why a mostly idle machine hangs: recordings as tables, answers and SQL.

    import unhitch

    trace = unhitch.open("starve.hitch")
    print(trace.why().text)                         # the answer, in words
    waits = trace.table("waits", where="waited > 5ms")
    waits.to_polars()                               # or .to_arrow(), .to_pandas(); no copy
    trace.sql("select function, sum(waited_ns) from waits group by 1 order by 2 desc")

Durations and times are integers: nanoseconds. Times are on the trace's own clock, which is Linux's
``CLOCK_MONOTONIC`` (for a Windows trace, nanoseconds since its start); the program prints them
relative to ``trace.origin_ns``. Ids of stacks and functions are hashes of their content, so that
they hold across recordings.

``docs/python.md`` is the guide, ``docs/sql.md`` describes every table.
"""

from ._errors import UnhitchError
from ._native import SCHEMA_VERSION, VERSION as __version__
from ._record import Recording, record
from ._scan import Scan, scan
from ._table import Column, Table
from ._trace import TABLES, Trace, Why, describe, open

__all__ = [
    "SCHEMA_VERSION",
    "TABLES",
    "Column",
    "Recording",
    "Scan",
    "Table",
    "Trace",
    "UnhitchError",
    "Why",
    "__version__",
    "describe",
    "open",
    "record",
    "scan",
]
