"""Answers, SQL, errors, recording."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

import unhitch


def test_why_is_the_contract_and_the_text(trace: unhitch.Trace) -> None:
    why = trace.why()
    assert (why["version"], why.stalls[0]["cause"]["pattern"]) == (1, "lock_starvation")
    for stall in why.stalls:
        assert sum(share["ns"] for share in stall["partition"]) == stall["duration_ns"]
    assert why.text.startswith("HANG 1.600 s") and str(why) == why.text
    assert "lock starvation" in why.text
    assert json.loads(json.dumps(why)) == why


def test_why_is_that_of_the_program(trace: unhitch.Trace, starve: Path, program: str) -> None:
    run = subprocess.run([program, "why", starve, "--json"], check=True, capture_output=True)
    assert json.loads(run.stdout) == trace.why()


def test_why_of_a_victim_and_a_time(trace: unhitch.Trace) -> None:
    victim = trace.why().stalls[0]["victim"]
    asked = trace.why(victim=victim["tid"], start=1.0, end=2.0)
    assert asked.stalls[0]["victim"] == victim
    assert asked.stalls[0]["duration_ns"] == 1_000_000_000


def test_info_and_warnings(trace: unhitch.Trace) -> None:
    assert (trace.info["format"], trace.info["cpus"]) == ("hitch", 2)
    assert trace.warnings == trace.info["warnings"]
    assert "waits: " in unhitch.describe("waits")


def test_sql_joins_stacks(trace: unhitch.Trace) -> None:
    answer = trace.sql(
        "select leaf, sum(waited_ns) from waits join stacks on wait_stack_id = stack_id "
        "where reason = 'lock' group by 1 order by 2 desc"
    ).fetchall()
    assert answer[0][0] == "futex_do_wait" and answer[0][1] > 1_500_000_000
    connection = trace.connect()
    assert connection.sql("select count(*) from cpus").fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda trace: trace.table("wait"), "there is no table `wait`"),
        (lambda trace: trace.table("waits", where="waited >"), "where: "),
        (lambda trace: trace.table("waits", by="colour"), "no column `colour`"),
        (lambda trace: trace.table("stacks"), "trace.stacks"),
        (lambda trace: trace.table("waits", start=99.0), "the trace covers"),
        (lambda trace: trace.table("waits", start=-1.0), "no time"),
        (lambda trace: trace.why(victim="nobody"), "nobody"),
        (lambda trace: trace.sql("selec 1"), "syntax error"),
        (lambda trace: unhitch.open("/does/not/exist"), "/does/not/exist"),
        (lambda trace: unhitch.open(__file__), "not a trace"),
        (lambda trace: unhitch.open(trace.path, rules=__file__), "test_answers.py"),
        (lambda trace: unhitch.record("x.hitch", using="no-such-program"), "no-such-program"),
        (lambda trace: unhitch.record(__file__), "exists already"),
    ],
)
def test_errors_are_one_class(trace: unhitch.Trace, wrong: object, words: str) -> None:
    with pytest.raises(unhitch.UnhitchError) as error:
        wrong(trace)  # type: ignore[operator]
    assert words in str(error.value)


def test_a_block_is_recorded(program: str, tmp_path: Path) -> None:
    path = tmp_path / "block.hitch"
    recording = unhitch.record(path, using=program)
    try:
        with recording:
            for _ in range(10):
                time.sleep(0.1)
    except unhitch.UnhitchError as error:
        if os.environ.get("UNHITCH_MUST_RECORD"):
            raise
        pytest.skip(f"recording is not permitted here: {error}")
    own = recording.trace.table("waits", where=f"tid = {os.getpid()} and reason = timer")
    # The context manager itself polls now and then, for a shorter time.
    slept = own.to_polars()["waited_ns"]
    assert (slept >= 100_000_000).sum() >= 10
    assert recording.trace.info["format"] == "hitch"


def test_a_failed_recording_says_why(tmp_path: Path) -> None:
    program = tmp_path / "unhitch"
    program.write_text("#!/bin/sh\necho 'unhitch: no rights here' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(unhitch.UnhitchError, match="no rights here"):
        with unhitch.record(tmp_path / "x.hitch", using=program):
            raise AssertionError("the block must not run")
