"""``unhitch fleet``: the commands."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from .._native import visible, visible_json
from ._ingest import PART_SIZE, Progress, ingest
from ._report import report
from ._store import compact, connect, delete

__all__ = ["add_to"]

MAX_DAMAGED = 20
"""Damaged files that the text names."""


def add_to(commands: Any) -> None:
    """Adds the commands."""
    fleet = commands.add_parser("fleet", help="what costs all machines most")
    own = fleet.add_subparsers(dest="fleet_command", required=True)

    adding = own.add_parser("ingest", help="add recordings to a fleet")
    adding.add_argument("paths", nargs="+", metavar="FOLDER|GLOB|FILE")
    adding.add_argument("--into", required=True, metavar="DIR", help="the folder of the fleet")
    adding.add_argument("--processes", type=positive, help="default: the number of CPUs")
    adding.add_argument("--part-size", type=positive, default=PART_SIZE, help="recordings in a part")
    adding.add_argument("--spark", metavar="MASTER", help="read on this Spark cluster")
    adding.set_defaults(run=run_ingest)

    asking = own.add_parser("report", help="what costs most, what is new, what got worse")
    asking.add_argument("fleet", metavar="DIR")
    asking.add_argument("--since", metavar="DAY", help="name causes first seen from this day on")
    asking.add_argument("--json", action="store_true")
    asking.add_argument("--spark", metavar="MASTER", help="ask this Spark cluster instead of DuckDB")
    asking.set_defaults(run=run_report)

    query = own.add_parser("sql", help="an SQL query over the fleet's tables, by DuckDB")
    query.add_argument("fleet", metavar="DIR")
    query.add_argument("query")
    query.set_defaults(run=run_sql)

    removing = own.add_parser("delete", help="take recordings out")
    removing.add_argument("fleet", metavar="DIR")
    removing.add_argument("traces", nargs="+", metavar="FILE|ID")
    removing.set_defaults(run=run_delete)

    tidying = own.add_parser("compact", help="one file per table and day; frees what was deleted")
    tidying.add_argument("fleet", metavar="DIR")
    tidying.set_defaults(run=run_compact)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def run_ingest(options: argparse.Namespace) -> int:
    progress = Progress()
    try:
        result = ingest(
            options.paths,
            into=options.into,
            processes=options.processes,
            part_size=options.part_size,
            spark=options.spark,
            progress=progress,
        )
    finally:
        progress.end()
    print(f"{result.added:,} added, {result.known:,} known already, {len(result.damaged):,} damaged")
    if result.passed_over:
        first = visible(result.passed_over[0])
        print(f"passed over, as their names are not those of traces: {len(result.passed_over):,} files, e.g. {first}")
    for _, why in result.damaged[:MAX_DAMAGED]:
        print(f"damaged: {visible(why)}", file=sys.stderr)
    if len(result.damaged) > MAX_DAMAGED:
        rest = len(result.damaged) - MAX_DAMAGED
        print(f"… and {rest:,} more, in damaged.json of the fleet", file=sys.stderr)
    return 0


def run_report(options: argparse.Namespace) -> int:
    found = report(options.fleet, since=options.since, spark=options.spark)
    if options.json:
        print(visible_json(json.dumps(found.data, ensure_ascii=False, indent=1)))
    else:
        print(found.text, end="")
    return 0


def run_sql(options: argparse.Namespace) -> int:
    from .._errors import UnhitchError, needs
    from ..__main__ import print_rows

    duckdb = needs("duckdb", "fleet")
    try:
        answer = connect(options.fleet).sql(options.query)
        print_rows(list(answer.columns), answer.fetchall())
    except duckdb.Error as error:
        raise UnhitchError(str(error)) from error
    return 0


def run_delete(options: argparse.Namespace) -> int:
    print(f"{len(delete(options.fleet, options.traces)):,} taken out; `compact` frees their space")
    return 0


def run_compact(options: argparse.Namespace) -> int:
    compact(options.fleet)
    return 0
