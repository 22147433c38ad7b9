"""What the program `unhitch` hands to Python: ``sql``, ``export --to parquet`` and ``fleet``."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from typing import Any, Sequence

from . import TABLES, Trace, UnhitchError, open  # noqa: A004
from ._errors import needs
from ._native import visible, visible_json, visible_lines
from ._parquet import write_parquet

MAX_ROWS = 40
"""Rows that the text shows."""
MAX_CELL = 60
"""Letters of a cell that the text shows."""


def shown(cell: Any) -> str:
    """A cell as text for people."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.6g}"
    text = visible(str(cell))
    return text if len(text) <= MAX_CELL else text[: MAX_CELL // 2] + "…" + text[-MAX_CELL // 2 :]


def print_rows(names: Sequence[str], rows: list[tuple[Any, ...]]) -> None:
    """Rows as a table, numbers to the right."""
    cells = [[shown(cell) for cell in row] for row in rows[:MAX_ROWS]]
    names = [visible(name) for name in names]
    widths = [max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(names)]
    right = [
        all(isinstance(row[at], (int, float, type(None))) for row in rows)
        for at in range(len(names))
    ]

    def line(texts: Sequence[str]) -> str:
        parts = zip(texts, widths, right)
        return "  ".join(f"{t:>{w}}" if r else f"{t:<{w}}" for t, w, r in parts).rstrip()

    print(line(names))
    for row in cells:
        print(line(row))
    if len(rows) > MAX_ROWS:
        print(f"… and {len(rows) - MAX_ROWS:,} more of {len(rows):,} rows (--csv and --json give all)")


def query(trace: Trace, text: str, form: str) -> None:
    """Prints the answer to a query."""
    duckdb = needs("duckdb", "sql")
    answer = trace.sql(text)
    try:
        names, rows = list(answer.columns), answer.fetchall()
    except duckdb.Error as error:
        raise UnhitchError(str(error)) from error
    if form == "json":
        for row in rows:
            line = json.dumps(dict(zip(names, row)), ensure_ascii=False, default=str)
            print(visible_json(line))
    elif form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(names)
        writer.writerows(rows)
    else:
        for warning in trace.warnings:
            print(f"warning: {visible(warning)}", file=sys.stderr)
        print_rows(names, rows)


def parser() -> argparse.ArgumentParser:
    """The options."""
    own = argparse.ArgumentParser(prog="unhitch", description=__doc__)
    commands = own.add_subparsers(dest="command", required=True)
    sql = commands.add_parser("sql", help="an SQL query over the tables of a trace, by DuckDB")
    sql.add_argument("trace")
    sql.add_argument("query", help=f"over {', '.join(TABLES)}, stacks, frames (docs/sql.md)")
    form = sql.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", help="a row a line")
    form.add_argument("--csv", dest="form", action="store_const", const="csv")
    parquet = commands.add_parser("parquet", help="a Parquet file for each table of a trace")
    parquet.add_argument("trace")
    parquet.add_argument("--output", "-o", help="the folder to make")
    parquet.add_argument("--force", action="store_true", help="replace files that exist")
    parquet.add_argument("--rules", metavar="FILE", help="wait rules of your own")
    parquet.add_argument(
        "--with",
        dest="together_with",
        metavar="FILE",
        action="append",
        default=[],
        help="another session of the same Windows recording",
    )
    from .fleet.command import add_to

    add_to(commands)
    return own


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; its exit code."""
    options = parser().parse_args(arguments)
    try:
        if options.command == "sql":
            query(open(options.trace), options.query, options.form or "text")
        elif options.command == "parquet":
            folder = options.output or os.path.splitext(options.trace)[0] + ".parquet"
            trace = open(
                options.trace, together_with=options.together_with, rules=options.rules
            )
            for warning in trace.warnings:
                print(f"warning: {visible(warning)}", file=sys.stderr)
            write_parquet(trace, folder, replace=options.force)
            print(folder)
        else:
            return int(options.run(options))
    except UnhitchError as error:
        print(f"unhitch: {visible_lines(str(error))}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read the output has had enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
