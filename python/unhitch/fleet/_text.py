"""The report in words and tables."""

from __future__ import annotations

from typing import Any, Iterable

from .._native import visible

__all__ = ["duration", "words"]

MAX_LINES = 12
"""Lines of a table in the text; ``--json`` gives all."""
MAX_RANKED = 5
"""Causes that the text ranks by machines and by their worst case."""


def duration(ns: float) -> str:
    """A duration with its unit."""
    for unit, size in (("h", 3_600e9), ("min", 60e9), ("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:,.3g} {unit}" if ns < 1000 * size else f"{ns / size:,.0f} {unit}"
    return f"{ns:.0f} ns"


def share(part: float) -> str:
    return f"{100 * part:.1f} %"


def table(names: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Rows in columns; all but the last to the right."""
    lines = [names, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
    return [
        "  " + "  ".join([*(f"{t:>{w}}" for t, w in zip(line[:-1], widths)), line[-1]]) for line in lines
    ]


def cause_name(cause: dict[str, Any]) -> str:
    """A cause in a few words."""
    culprit = f", by {visible(cause['culprit'])}" if cause.get("culprit") else ""
    return f"{cause['pattern']} in {visible(cause['function']) or '(unknown function)'}{culprit}"


def more(rows: list[Any]) -> list[str]:
    left = len(rows) - MAX_LINES
    return [f"  … and {left:,} more (--json has all)"] if left > 0 else []


def words(data: dict[str, Any]) -> str:
    """The report as text."""
    fleet = data["fleet"]
    lines = [
        f"{fleet['traces']:,} recordings of {fleet['hosts']:,} machines, {fleet['first_day']} to "
        f"{fleet['last_day']}: {fleet['stalls'] or 0:,} stalls in {fleet['with_stalls']:,} of them, "
        f"{duration(fleet['total_ns'])} together",
    ]
    if fleet["with_losses"]:
        lines.append(f"{fleet['with_losses']:,} of the recordings lost events")
    lines += causes(data) + covered(data) + new(data) + regressions(data) + contrast(data)
    return "\n".join(lines + similar(data)) + "\n"


def causes(data: dict[str, Any]) -> list[str]:
    rows = data["causes"]
    if not rows:
        return ["", "No stall was found."]
    shown = [
        [
            duration(cause["total_ns"]),
            share(cause["share"]),
            f"{cause['stalls']:,}",
            f"{cause['hosts']:,}",
            duration(cause["worst_ns"]),
            cause_name(cause),
        ]
        for cause in rows[:MAX_LINES]
    ]
    lines = ["", "What costs most", *table(["delay", "share", "stalls", "machines", "worst", "cause"], shown)]
    lines += more(rows)
    return lines + on_most_machines(rows) + worst_cases(rows)


def on_most_machines(rows: list[dict[str, Any]]) -> list[str]:
    hit = sorted(rows, key=lambda cause: (-cause["hosts"], -cause["total_ns"]))[:MAX_RANKED]
    shown = [[f"{cause['hosts']:,}", duration(cause["total_ns"]), cause_name(cause)] for cause in hit]
    return ["", "On most machines", *table(["machines", "delay", "cause"], shown)]


def worst_cases(rows: list[dict[str, Any]]) -> list[str]:
    worst = sorted(rows, key=lambda cause: -cause["worst_ns"])[:MAX_RANKED]
    shown = [[duration(cause["worst_ns"]), cause_name(cause)] for cause in worst]
    lines = ["", "Worst cases", *table(["worst", "cause"], shown)]
    files = [one["file"] for cause in worst for one in cause["exemplars"][:1] if one["file"]]
    return lines + [f"  unhitch why {visible(file)}" for file in files]


def covered(data: dict[str, Any]) -> list[str]:
    curve = data["coverage"]
    wanted = [1, 2, 5, 10, 20, 50, 100]
    points = [point for point in curve if point["causes"] in wanted]
    if not points:
        return []
    text = ", ".join(f"{point['causes']}: {share(point['share'])}" for point in points)
    last = points[-1]
    which = "cause explains" if last["causes"] == 1 else f"{last['causes']} causes explain"
    return ["", f"Coverage: the first {which} {share(last['share'])} of all delay ({text})"]


def new(data: dict[str, Any]) -> list[str]:
    if data["since"] is None:
        return []
    fresh = [cause for cause in data["causes"] if cause["is_new"]]
    if not fresh:
        return ["", f"New since {data['since']}: nothing"]
    shown = [[duration(cause["total_ns"]), cause["first_day"], cause_name(cause)] for cause in fresh]
    head = ["", f"New since {data['since']}"]
    return head + table(["delay", "first", "cause"], shown[:MAX_LINES]) + more(shown)


def rate(side: dict[str, Any]) -> str:
    return f"{side['hits']:,} of {side['traces']:,}"


def regressions(data: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for change, head in (("worse", "More frequent in a newer build"), ("better", "Less frequent in a newer build")):
        rows = [one for one in data["regressions"] if one["change"] == change]
        shown = [
            [
                rate(one["before"]),
                rate(one["after"]),
                f"{one['false_discovery_rate']:.2g}",
                f"{one['pattern']} in {visible(one['function'])}: {visible(one['program'])} "
                f"{one['before']['build_id'][:12]} → {one['after']['build_id'][:12]}",
            ]
            for one in rows[:MAX_LINES]
        ]
        if shown:
            lines += ["", head, *table(["before", "after", "by chance", "cause"], shown), *more(rows)]
    return lines


def contrast(data: dict[str, Any]) -> list[str]:
    rows = data["contrast"]
    shown = [
        [
            rate(one["slow"]),
            rate(one["fast"]),
            f"{one['false_discovery_rate']:.2g}",
            f"{visible(one['process'])}: {visible(one['pattern'])}",
        ]
        for one in rows[:MAX_LINES]
    ]
    if not shown:
        return []
    least = duration(rows[0]["least_ns"])
    head = f"Waits of {least} and more in recordings with a hang, and in others of the same program"
    return ["", head, *table(["with hang", "others", "by chance", "wait"], shown), *more(rows)]


def similar(data: dict[str, Any]) -> list[str]:
    rows = data["clusters"]
    if not rows:
        return []
    lines = ["", "Chains that are alike, each with recordings to open"]
    for one in rows[:MAX_LINES]:
        lines.append(
            f"  {one['stalls']:,} stalls, {duration(one['total_ns'])}: {one['pattern']} in "
            f"{visible(one['function'])}"
        )
        files = [visible(exemplar["file"]) for exemplar in one["exemplars"] if exemplar["file"]]
        lines += [f"    {file}" for file in files]
    return lines + more(rows)
