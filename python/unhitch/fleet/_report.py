"""What costs all machines most: the report over the tables of a fleet."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from typing import Any, Callable

from .._errors import UnhitchError
from ._queries import QUERIES, SLOW_NS
from ._statistics import clusters, false_discovery, fisher
from ._store import Store, connect
from ._text import words

__all__ = ["Report", "Rows", "build", "report"]

Rows = Callable[[str], "list[dict[str, Any]]"]
"""Answers one of `QUERIES` by name."""
MAX_RATE = 0.05
"""The false discovery rate up to which a difference is reported."""
LEAST_TRACES = 5
"""Recordings that each side of a comparison must have."""


@dataclass(frozen=True)
class Report:
    """The report: a dictionary (fields may be added, never changed), and in words."""

    data: dict[str, Any]

    @property
    def text(self) -> str:
        """The report in words and tables."""
        return words(self.data)

    def __str__(self) -> str:
        return self.text


def report(
    folder: str | os.PathLike[str], *, since: str | None = None, spark: str | None = None
) -> Report:
    """The report over a fleet. ``since`` is a day; causes first seen from then on are new.

    DuckDB answers the queries, or with ``spark`` the cluster of that master.
    """
    if since is not None:
        try:
            since = datetime.date.fromisoformat(since).isoformat()
        except ValueError as error:
            raise UnhitchError(f"{since!r} is no day; write it as 2026-09-01") from error
    if spark is not None:
        return report_on_spark(folder, since, spark)
    connection = connect(folder)

    def rows(name: str) -> list[dict[str, Any]]:
        answer = connection.sql(QUERIES[name])
        names = list(answer.columns)
        return [dict(zip(names, plain(row))) for row in answer.fetchall()]

    return Report(build(rows, Store(folder).traces(), since))


def report_on_spark(folder: str | os.PathLike[str], since: str | None, master: str) -> Report:
    """The same, by Spark."""
    from . import _spark

    files = Store(folder).traces()
    session = _spark.session(master)
    try:
        _spark.views(session, folder)
        rows: Rows = lambda name: _spark.answers(session, name)  # noqa: E731
        return Report(build(rows, files, since))
    finally:
        session.stop()


def plain(row: tuple[Any, ...]) -> list[Any]:
    """Numbers as integers, whichever engine they are from (sums are decimals in Spark)."""
    return [
        value if value is None or isinstance(value, (str, bool)) else int(value) for value in row
    ]


def build(rows: Rows, files: dict[str, str], since: str | None) -> dict[str, Any]:
    """The report from the answers to `QUERIES`."""
    summary = rows("traces")[0]
    causes = rows("causes")
    all_ns = sum(cause["total_ns"] for cause in causes)
    exemplars: dict[str, list[dict[str, Any]]] = {}
    for row in rows("exemplars"):
        shown = {
            "file": files.get(row["trace_id"]),
            "trace_id": row["trace_id"],
            "stall": row["stall"],
            "duration_ns": row["duration_ns"],
        }
        exemplars.setdefault(row["cause_id"], []).append(shown)
    for cause in causes:
        cause["share"] = cause["total_ns"] / all_ns if all_ns else 0.0
        cause["exemplars"] = exemplars.get(cause["cause_id"], [])
        cause["is_new"] = since is not None and cause["first_day"] >= since
    return {
        "version": 1,
        "fleet": {**summary, "total_ns": all_ns, "causes": len(causes)},
        "since": since,
        "causes": causes,
        "coverage": coverage(rows),
        "edges": rows("edges"),
        "regressions": regressions(rows),
        "contrast": contrast(rows),
        "clusters": chains(rows, files),
    }


def coverage(rows: Rows) -> list[dict[str, Any]]:
    """How much of all delay the first so many causes explain."""
    return [
        {"causes": row["causes"], "share": row["covered_ns"] / row["all_ns"]}
        for row in rows("coverage")
        if row["all_ns"]
    ]


def regressions(rows: Rows) -> list[dict[str, Any]]:
    """Causes that are more frequent in one build of a program than in the build before it."""
    builds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows("exposure"):
        builds.setdefault((row["process"], row["program"]), []).append(row)
    hits: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    for row in rows("hits"):
        key = (row["process"], row["program"], row["build_id"])
        hits.setdefault(key, {})[row["cause_id"]] = row
    found: list[dict[str, Any]] = []
    for (process, program), list_of in sorted(builds.items()):
        for before, after in zip(list_of, list_of[1:]):
            sides = [hits.get((process, program, side["build_id"]), {}) for side in (before, after)]
            of = [side["traces"] for side in (before, after)]
            if min(of) < LEAST_TRACES:
                continue
            for cause in sorted({*sides[0], *sides[1]}):
                counts = [side[cause]["traces"] if cause in side else 0 for side in sides]
                names = sides[1].get(cause) or sides[0][cause]
                more = counts[1] * of[0] > counts[0] * of[1]
                chance = (
                    fisher(counts[1], of[1], counts[0], of[0])
                    if more
                    else fisher(counts[0], of[0], counts[1], of[1])
                )
                found.append(
                    {
                        "program": program,
                        "before": {"build_id": before["build_id"], "traces": of[0], "hits": counts[0]},
                        "after": {"build_id": after["build_id"], "traces": of[1], "hits": counts[1]},
                        "cause_id": cause,
                        "pattern": names["pattern"],
                        "function": names["function"],
                        "change": "worse" if more else "better",
                        # Twice: either direction would have been reported.
                        "chance": min(1.0, 2 * chance),
                    }
                )
    return significant(found, ("change", "program", "cause_id"))


def contrast(rows: Rows) -> list[dict[str, Any]]:
    """Waits that recordings have in which a program hung, and others of the program have not."""
    sides = {row["process"]: (row["slow"], row["fast"]) for row in rows("operations")}
    found = []
    for row in rows("contrast"):
        slow, fast = sides.get(row["process"], (0, 0))
        if min(slow, fast) < LEAST_TRACES:
            continue
        found.append(
            {
                "process": row["process"],
                "pattern": row["pattern"],
                "pattern_id": row["pattern_id"],
                "slow": {"traces": slow, "hits": row["in_slow"]},
                "fast": {"traces": fast, "hits": row["in_fast"]},
                "least_ns": SLOW_NS,
                "chance": fisher(row["in_slow"], slow, row["in_fast"], fast),
            }
        )
    return significant(found, ("process", "pattern_id"))


def significant(found: list[dict[str, Any]], keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """What is left of findings when as many comparisons as were made are taken into account."""
    for finding, rate in zip(found, false_discovery([finding["chance"] for finding in found])):
        finding["false_discovery_rate"] = rate
    kept = [finding for finding in found if finding["false_discovery_rate"] <= MAX_RATE]
    return sorted(kept, key=lambda one: (one["chance"], *(one[key] for key in keys)))


def chains(rows: Rows, files: dict[str, str]) -> list[dict[str, Any]]:
    """Stalls whose chains are alike, with the longest and the median one to open."""
    steps: dict[tuple[str, int], set[str]] = {}
    facts: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows("chains"):
        stall = (row["trace_id"], row["stall"])
        facts[stall] = row
        own = steps.setdefault(stall, {f"{row['pattern']} {row['function']}"})
        if row["class"] is not None:
            own.add(f"{row['class']} {row['wait_function']} <- {row['wake_function']}")
            own.add(f"{row['sleeper']} <- {row['waker']}")
    found = []
    for cluster in clusters((stall, frozenset(own)) for stall, own in sorted(steps.items())):
        by_length = sorted(cluster, key=lambda stall: (-facts[stall]["duration_ns"], stall))
        names: dict[tuple[str, str], int] = {}
        for stall in cluster:
            name = (facts[stall]["pattern"], facts[stall]["function"])
            names[name] = names.get(name, 0) + 1
        pattern, function = min(names, key=lambda name: (-names[name], name))
        shown = dict.fromkeys([by_length[0], by_length[len(by_length) // 2]])
        found.append(
            {
                "stalls": len(cluster),
                "total_ns": sum(facts[stall]["duration_ns"] for stall in cluster),
                "pattern": pattern,
                "function": function,
                "steps": sorted(frozenset.intersection(*(frozenset(steps[one]) for one in cluster))),
                "exemplars": [
                    {
                        "file": files.get(trace),
                        "trace_id": trace,
                        "stall": stall,
                        "duration_ns": facts[(trace, stall)]["duration_ns"],
                    }
                    for trace, stall in shown
                ],
            }
        )
    return sorted(found, key=lambda one: (-one["total_ns"], one["pattern"], one["function"]))
