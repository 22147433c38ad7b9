"""Tables: what they hold, and that nothing is copied on the way."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import polars
import pyarrow
import pytest

import unhitch

SINGLE = [name for name in unhitch.TABLES]


@pytest.mark.parametrize("name", SINGLE)
def test_every_table_reaches_every_library(trace: unhitch.Trace, name: str) -> None:
    table = getattr(trace, name)
    arrow = table.to_arrow()
    arrow.validate(full=True)
    assert arrow.num_rows == len(table)
    assert arrow.column_names == [column.name for column in table.columns]
    assert table.to_polars().shape == arrow.shape
    assert table.to_pandas().shape == arrow.shape
    assert duckdb.sql("select count(*) from arrow").fetchall() == [(len(table),)]
    assert all(column.doc for column in table.columns)
    units = {column.name: column.unit for column in table.columns}
    assert all(units[name] for name in arrow.column_names if name.endswith("_ns"))


def test_numbers_stay_where_they_are(trace: unhitch.Trace) -> None:
    waits = trace.waits
    first, second = waits.to_arrow(), waits.to_arrow()
    column = [table.column("waited_ns").chunk(0).buffers()[1].address for table in (first, second)]
    assert column[0] == column[1], "each reader sees the same memory"
    series = waits.to_polars()["waited_ns"]
    assert series.to_arrow().buffers()[1].address == column[0]


def test_rows_outlive_the_trace(starve: Path) -> None:
    waits = unhitch.open(starve).waits
    arrow = waits.to_arrow()
    del waits
    gc.collect()
    assert arrow.column("waited_ns").to_pylist()[0] >= 0


def test_cells_are_those_of_the_program(trace: unhitch.Trace, starve: Path, program: str) -> None:
    printed = subprocess.run(
        [program, "table", starve, "waits", "--by", "none", "--show", "all", "--json"],
        check=True,
        capture_output=True,
    )
    rows = json.loads(printed.stdout)["rows"]
    # The program sorts by the longest wait, and so does the package.
    own = trace.waits.to_arrow().to_pylist()
    assert len(own) == len(rows)
    plain = [key for key in rows[0] if not key.endswith("stack")]
    for mine, row in zip(own, rows):
        assert [mine[key] for key in plain] == [row[key] for key in plain]


def test_groups_sum_to_the_rows(trace: unhitch.Trace) -> None:
    rows = trace.table("waits", where="reason = lock").to_polars()
    groups = trace.table("waits", where="reason = lock", by="function").to_polars()
    assert groups["count"].sum() == len(rows) > 1_000
    assert groups["sum_waited_ns"].sum() == rows["waited_ns"].sum()
    everything = trace.table("waits", where="reason = lock", by=None, show=["count", "sum:waited"])
    assert everything.to_polars()["count"].sum() == len(rows)
    assert len(trace.table("waits", top=3)) == 3


def test_a_time_range_is_in_seconds(trace: unhitch.Trace) -> None:
    inside = trace.table("wakes", start=1.0, end=1.5).to_polars()["woken_at_ns"]
    origin = int(trace.waits.metadata["unhitch.origin_ns"])
    assert 0 < len(inside) < len(trace.wakes)
    assert inside.min() >= origin + 1_000_000_000
    assert inside.max() < origin + 1_500_000_000


def test_ids_are_hashes_of_what_they_stand_for(trace: unhitch.Trace) -> None:
    def content_id(*parts: str) -> str:
        return hashlib.sha256(b"\0".join(part.encode() for part in parts)).hexdigest()[:32]

    frames = {row["frame_id"]: row for row in trace.frames.to_arrow().to_pylist()}
    for id, row in frames.items():
        assert id == content_id("function", row["module"], row["function"])
    stacks = trace.stacks.to_arrow().to_pylist()
    for row in stacks:
        assert row["stack_id"] == content_id("stack", *row["frame_ids"])
        names = [frames[id]["function"] for id in row["frame_ids"]]
        assert row["folded"] == ";".join(names)
        assert (row["leaf"], row["depth"]) == (names[-1], len(names))
        kernel = [frames[id]["is_kernel"] for id in reversed(row["frame_ids"])]
        assert kernel[: row["kernel_depth"]] == [True] * row["kernel_depth"]
    known = {row["stack_id"] for row in stacks}
    assert len(known) == len(stacks)
    for table, column in [
        ("waits", "wait_stack_id"),
        ("wakes", "wake_stack_id"),
        ("switches", "wait_stack_id"),
        ("samples", "stack_id"),
    ]:
        used = set(getattr(trace, table).to_polars()[column].drop_nulls().unique())
        assert used and used <= known, table


def test_ids_hold_across_recordings(fleet: Path) -> None:
    stacks = unhitch.scan(fleet, "stacks").to_polars()
    # `main` of two programs is two functions, but there is one editor.
    own = stacks.filter(polars.col("folded").str.contains("EventLoop"))
    by_text = own.group_by("folded").agg(polars.col("stack_id").n_unique().alias("ids"))
    assert by_text["ids"].max() == 1
    traces = stacks.group_by("stack_id").agg(polars.col("trace").n_unique().alias("traces"))
    assert traces["traces"].max() == 60, "the editor's loop is in every recording"


def test_a_scan_holds_one_trace_at_a_time(starve: Path, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.hitch").symlink_to(starve)
    scan = unhitch.scan(tmp_path, "waits", where="waited > 1ms")
    rows = scan.to_polars()
    one = unhitch.open(starve).table("waits", where="waited > 1ms").to_polars()
    assert rows["trace"].n_unique() == 5
    assert len(rows) == 5 * len(one)
    counted = duckdb.sql("select trace, count(*) n from scan group by 1").fetchall()
    assert [n for _, n in counted] == [len(one)] * 5
    assert sum(batch.num_rows for batch in scan.batches()) == len(rows)
    grouped = unhitch.scan(tmp_path, "waits", by=["reason"]).to_polars()
    assert grouped.columns[:2] == ["trace", "reason"]


def test_a_damaged_trace_is_named_or_skipped(starve: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.hitch"
    damaged.write_bytes(b"no trace")
    with pytest.raises(unhitch.UnhitchError, match="damaged.hitch"):
        unhitch.scan([starve, damaged], "waits").to_arrow()
    scan = unhitch.scan([damaged, starve], "waits", skip_damaged=True)
    assert len(scan.to_arrow()) == len(unhitch.open(starve).waits)
    assert [Path(path).name for path, _ in scan.skipped] == ["damaged.hitch"]
    with pytest.raises(unhitch.UnhitchError, match="nowhere"):
        unhitch.scan(tmp_path / "nowhere", "waits")


def test_opening_a_thousand_times_leaks_nothing(starve: Path) -> None:
    script = """
import sys, unhitch
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
def once():
    trace = unhitch.open(sys.argv[1])
    trace.waits.to_arrow(); trace.stacks.to_arrow()
for _ in range(100): once()
before = rss()
for _ in range(1000): once()
print(rss() - before)
"""
    run = subprocess.run(
        [sys.executable, "-c", script, starve], check=True, capture_output=True, text=True
    )
    # A trace is 1.3 MB: one per round would be far above a gigabyte.
    assert int(run.stdout) < 20_000_000


def test_a_fork_is_refused(trace: unhitch.Trace, starve: Path) -> None:
    assert len(trace.waits) > 0
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            unhitch.open(starve)
            os.write(writer, b"opened")
        except unhitch.UnhitchError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert b"spawn" in os.read(reader, 1_000)
    os.close(reader)
