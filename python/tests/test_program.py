"""What the program `unhitch` hands to this package."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

import duckdb
import pyarrow.parquet
import pytest

import unhitch


def run(program: str, *words: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "UNHITCH_PYTHON": sys.executable}
    command = [program, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_sql_prints_text_json_and_csv(program: str, trace: unhitch.Trace, starve: Path) -> None:
    query = "select reason, count(*) as waits from waits group by 1 order by 2 desc, 1"
    expected = trace.sql(query).fetchall()
    text = run(program, "sql", starve, query)
    assert text.returncode == 0, text.stderr
    lines = text.stdout.splitlines()
    assert lines[0].split() == ["reason", "waits"] and len(lines) == len(expected) + 1
    rows = [json.loads(line) for line in run(program, "sql", "--json", starve, query).stdout.splitlines()]
    assert [(row["reason"], row["waits"]) for row in rows] == expected
    cells = list(csv.reader(io.StringIO(run(program, "sql", "--csv", starve, query).stdout)))
    assert [(reason, int(waits)) for reason, waits in cells[1:]] == expected


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["sql", "TRACE", "selec 1"], "syntax error"),
        (["sql", "TRACE", "select nothing from waits"], "nothing"),
        (["sql", "missing.hitch", "select 1"], "missing.hitch"),
        (["export", "missing.hitch", "--to", "parquet"], "missing.hitch"),
        (["fleet", "report", "nowhere"], "is no fleet"),
    ],
)
def test_a_failure_is_an_error_and_an_exit_code(
    program: str, starve: Path, words: list[str], why: str
) -> None:
    done = run(program, *(starve if word == "TRACE" else word for word in words))
    assert (done.returncode, done.stdout) == (1, "")
    assert why in done.stderr and "Traceback" not in done.stderr


def test_an_export_to_parquet_has_every_table(
    program: str, trace: unhitch.Trace, starve: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "tables"
    export = ["export", starve, "--to", "parquet", "-o", folder]
    done = run(program, *export)
    assert (done.returncode, done.stdout) == (0, f"{folder}\n"), done.stderr
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700, "only the owner may read it"
    tables = (*unhitch.TABLES, "stacks", "frames")
    assert {path.name for path in folder.iterdir()} == {f"{table}.parquet" for table in tables}
    for table in tables:
        written = pyarrow.parquet.read_table(folder / f"{table}.parquet")
        assert written.num_rows == len(getattr(trace, table)), table
        metadata = written.schema.metadata
        assert metadata[b"unhitch.schema_version"] == str(unhitch.SCHEMA_VERSION).encode()
        assert metadata[b"unhitch.table"] == table.encode()
    answer = duckdb.sql(
        f"select leaf from '{folder}/waits.parquet' join '{folder}/stacks.parquet' "
        "on wait_stack_id = stack_id where reason = 'lock' group by 1 order by sum(waited_ns) desc"
    ).fetchall()
    assert answer[0] == ("futex_do_wait",)
    again = run(program, *export)
    assert again.returncode == 1 and "--force" in again.stderr
    assert run(program, *export, "--force").returncode == 0


def test_a_folder_of_something_else_is_not_replaced(
    program: str, starve: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("data")
    done = run(program, "export", starve, "--to", "parquet", "-o", tmp_path / "mine", "--force")
    assert done.returncode == 1 and "something else" in done.stderr
    assert (tmp_path / "mine" / "precious").read_text() == "data"
    assert not list(tmp_path.glob(".unhitch-*")), "nothing is left behind"


def test_a_part_of_a_trace_is_refused(program: str, starve: Path, tmp_path: Path) -> None:
    done = run(program, "export", starve, "--to", "parquet", "-o", tmp_path / "x", "--from", "1s")
    assert done.returncode == 2 and "its tables are whole" in done.stderr
    assert not (tmp_path / "x").exists()


def test_the_page_reads_the_report_of_a_fleet(program: str, fleet: Path, tmp_path: Path) -> None:
    store, report = tmp_path / "store", tmp_path / "report.json"
    assert run(program, "fleet", "ingest", fleet, "--into", store).returncode == 0
    printed = run(program, "fleet", "report", store, "--json")
    assert printed.returncode == 0, printed.stderr
    report.write_text(printed.stdout)
    command = [program, "view", fleet, "--fleet", report]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as view:
        try:
            assert view.stdout is not None
            address, _, token = view.stdout.readline().strip().partition("?token=")
            request = urllib.request.Request(
                f"{address}api/fleet", headers={"Authorization": f"Bearer {token}"}
            )
            with urllib.request.urlopen(request) as answer:
                shown = json.load(answer)
        finally:
            view.kill()
    whole = json.loads(printed.stdout)
    for key, rows in shown.items():
        if not isinstance(rows, list):
            continue
        assert len(rows) == len(whole[key]), key
        for row, of in zip(rows, whole[key]):
            assert set(row) <= set(of), key
    assert [cause["total_ns"] for cause in shown["causes"]] == [
        cause["total_ns"] for cause in whole["causes"]
    ]
    exemplars = [one for cause in shown["causes"] for one in cause["exemplars"]]
    assert exemplars and all(one["is_here"] for one in exemplars)
