"""A fleet: its tables and its report against the truth of the generator."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

import unhitch
from unhitch import _native, fleet
from unhitch.fleet import _statistics

TRACES = int(os.environ.get("UNHITCH_FLEET_TRACES", "300"))


@pytest.fixture(scope="module")
def recordings(synthetic: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    subprocess.run([synthetic, folder, "--traces", str(TRACES), "--filler", "20"], check=True)
    return folder


@pytest.fixture(scope="module")
def truth(recordings: Path) -> dict[str, Any]:
    return json.loads((recordings / "truth.json").read_text())


@pytest.fixture(scope="module")
def store(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet") / "store"
    result = fleet.ingest(recordings, into=folder)
    assert (result.added, result.known, result.damaged) == (TRACES, 0, [])
    return folder


def test_the_causes_are_those_of_the_truth(store: Path, truth: dict[str, Any]) -> None:
    expected = {cause["name"]: (cause["pattern"], cause["function"]) for cause in truth["causes"]}
    hangs: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for trace in truth["traces"]:
        if trace["cause"]:
            hangs[expected[trace["cause"]]].append(trace)
    data = fleet.report(store).data
    found = {(cause["pattern"], cause["function"]): cause for cause in data["causes"]}
    assert set(found) == set(hangs)
    for name, cause in found.items():
        own = hangs[name]
        assert cause["stalls"] == cause["traces"] == len(own), name
        assert cause["hosts"] == len({trace["host"] for trace in own}), name
        assert cause["first_day"] == min(trace["day"] for trace in own)
        # A stall is as long as the hang, but for the microseconds of its first and last switch.
        total = sum(trace["hang_ns"] for trace in own)
        assert abs(cause["total_ns"] - total) <= 100_000 * len(own), name
        worst = max(trace["hang_ns"] for trace in own)
        assert abs(cause["worst_ns"] - worst) <= 100_000, name
        assert cause["exemplars"][0]["duration_ns"] == cause["worst_ns"]
    totals = [sum(trace["hang_ns"] for trace in hangs[name]) for name in found]
    for cause, more, less in zip(data["causes"], totals, totals[1:]):
        assert more + 100_000 * cause["stalls"] >= less, "the greatest comes first"


def test_coverage_is_that_of_the_truth(store: Path, truth: dict[str, Any]) -> None:
    data = fleet.report(store).data
    sums: Counter[str] = Counter()
    for trace in truth["traces"]:
        if trace["cause"]:
            sums[trace["cause"]] += trace["hang_ns"]
    covered = 0
    expected = sorted(sums.values(), reverse=True)
    assert [point["causes"] for point in data["coverage"]] == list(range(1, len(expected) + 1))
    for point, part in zip(data["coverage"], expected):
        covered += part
        assert point["share"] == pytest.approx(covered / sum(expected), abs=1e-4)
    assert data["coverage"][-1]["share"] == 1.0


def test_the_text_ranks_by_machines_and_by_the_worst_case(store: Path) -> None:
    report = fleet.report(store)
    lines = report.text.splitlines()
    causes = report.data["causes"]
    at = lines.index("On most machines")
    most = max(causes, key=lambda cause: (cause["hosts"], cause["total_ns"]))
    assert lines[at + 2].split()[0] == str(most["hosts"]) and most["function"] in lines[at + 2]
    at = lines.index("Worst cases")
    worst = max(causes, key=lambda cause: cause["worst_ns"])
    assert worst["function"] in lines[at + 2]
    assert f"  unhitch why {worst['exemplars'][0]['file']}" in lines


def test_regressions_are_those_of_the_truth(store: Path, truth: dict[str, Any]) -> None:
    functions = {cause["name"]: cause["function"] for cause in truth["causes"]}
    of = Counter(trace["version"] for trace in truth["traces"])
    hits: dict[str, Counter[int]] = defaultdict(Counter)
    for trace in truth["traces"]:
        if trace["cause"]:
            hits[functions[trace["cause"]]][trace["version"]] += 1
    changes = {one["function"]: one for one in fleet.report(store).data["regressions"]}
    for function, counts in hits.items():
        if counts[2] > 3 * counts[1] + 10:
            assert changes[function]["change"] == "worse", function
        if counts[1] > 3 * counts[2] + 10:
            assert changes[function]["change"] == "better", function
    assert "Index::rebuild" in changes
    for function, one in changes.items():
        counts = hits[function]
        before, after = one["before"], one["after"]
        assert (before["hits"], after["hits"]) == (counts[1], counts[2]), function
        assert (before["traces"], after["traces"]) == (of[1], of[2])
        assert (before["build_id"], after["build_id"]) == ("e0" * 20, "e1" * 20)
        more = after["hits"] * of[1] > before["hits"] * of[2]
        assert one["change"] == ("worse" if more else "better")
        assert one["false_discovery_rate"] <= 0.05


def test_new_causes_are_new(store: Path, truth: dict[str, Any]) -> None:
    first: dict[str, str] = {}
    for trace in truth["traces"]:
        if trace["cause"]:
            first.setdefault(trace["cause"], trace["day"])
    since = sorted(first.values())[-1]
    functions = {cause["name"]: cause["function"] for cause in truth["causes"]}
    report = fleet.report(store, since=since)
    new = {cause["function"] for cause in report.data["causes"] if cause["is_new"]}
    assert new == {functions[name] for name, day in first.items() if day >= since}
    assert f"New since {since}" in report.text


def test_edges_sum_to_their_stall(store: Path) -> None:
    connection = fleet.connect(store)
    wrong = connection.sql(
        "select s.trace_id from stalls s join edges e on e.trace_id = s.trace_id "
        "and e.stall = s.stall group by s.trace_id, s.stall, s.duration_ns "
        "having sum(e.own_ns) <> s.duration_ns "
        "or sum(case when e.depth = 0 then e.total_ns end) <> s.duration_ns"
    ).fetchall()
    assert wrong == []
    stalls = connection.sql("select count(*) from stalls").fetchall()[0][0]
    assert stalls == connection.sql("select count(*) from edges where depth = 0").fetchall()[0][0]
    known = "select stack_id from stacks"
    assert connection.sql(
        f"select count(*) from edges where wait_stack_id not in ({known})"
    ).fetchall() == [(0,)]


def test_contrast_names_waits_of_hangs_and_no_noise(store: Path) -> None:
    found = fleet.report(store).data["contrast"]
    patterns = [one["pattern"] for one in found]
    assert any("Document::search <- editor Index::rebuild" in one for one in patterns)
    assert all(one["process"] == "editor" and one["fast"]["hits"] == 0 for one in found)


def test_clusters_have_one_cause_each(store: Path) -> None:
    data = fleet.report(store).data
    names = Counter((one["pattern"], one["function"]) for one in data["clusters"])
    assert set(names) == {(one["pattern"], one["function"]) for one in data["causes"]}
    assert sum(one["stalls"] for one in data["clusters"]) == data["fleet"]["stalls"]
    for one in data["clusters"]:
        for exemplar in one["exemplars"]:
            stall = unhitch.open(exemplar["file"]).why().stalls[exemplar["stall"] - 1]
            assert stall["duration_ns"] == exemplar["duration_ns"]


def test_adding_twice_changes_nothing(store: Path, recordings: Path, tmp_path: Path) -> None:
    before = fleet.fingerprint(store)
    again = fleet.ingest(recordings, into=store)
    assert (again.added, again.known) == (0, TRACES)
    copy = tmp_path / "copy-of-one.hitch"
    shutil.copy(next(recordings.glob("*.hitch")), copy)
    assert fleet.ingest(copy, into=store).known == 1
    assert fleet.fingerprint(store) == before


def test_parts_and_order_do_not_matter(store: Path, recordings: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    files = sorted(recordings.glob("*.hitch"), reverse=True)
    fleet.ingest(files[: TRACES // 2], into=other, processes=1, part_size=7)
    fleet.ingest(recordings, into=other, processes=2, part_size=100)
    assert fleet.fingerprint(other) == fleet.fingerprint(store)
    assert fleet.report(other).data["causes"] == fleet.report(store).data["causes"]


def test_deleting_and_compacting_gives_what_it_was(recordings: Path, tmp_path: Path) -> None:
    files = sorted(recordings.glob("*.hitch"))[:12]
    folder = tmp_path / "store"
    fleet.ingest(files[:-1], into=folder, part_size=4)
    before = fleet.fingerprint(folder)
    fleet.ingest(files, into=folder, part_size=4)
    assert fleet.fingerprint(folder) != before
    fleet.delete(folder, [str(files[-1])])
    assert fleet.fingerprint(folder) == before
    fleet.compact(folder)
    assert fleet.fingerprint(folder) == before
    parts = list((folder / "tables" / "traces").rglob("*.parquet"))
    assert len(parts) == len({part.parent for part in parts}), "one file a day"
    # What was deleted can come back, before a compaction and after it.
    fleet.ingest(files, into=folder)
    whole = fleet.fingerprint(folder)
    fleet.delete(folder, [str(files[0])])
    assert fleet.ingest(files, into=folder).added == 1
    assert fleet.fingerprint(folder) == whole
    with pytest.raises(unhitch.UnhitchError, match="not in this fleet"):
        fleet.delete(folder, ["nothing.hitch"])


def test_regression_a_compaction_that_was_killed_hides_nothing_later(
    recordings: Path, tmp_path: Path
) -> None:
    files = sorted(recordings.glob("*.hitch"))[:4]
    folder = tmp_path / "store"
    fleet.ingest(files, into=folder)
    whole = fleet.fingerprint(folder)
    [gone] = fleet.delete(folder, [str(files[0])])
    fleet.compact(folder)
    assert not list((folder / "deleted").iterdir())
    # As if it had been killed before it forgot what was deleted.
    (folder / "deleted" / gone).touch()
    assert fleet.ingest(files, into=folder).added == 1
    assert fleet.fingerprint(folder) == whole


def test_killed_and_run_again(store: Path, recordings: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    command = [sys.executable, "-m", "unhitch", "fleet", "ingest", str(recordings)]
    command += ["--into", str(folder), "--part-size", "3"]
    for parts in (1, 3):
        run = subprocess.Popen(command, start_new_session=True)
        commits = folder / "commits"
        while run.poll() is None:
            if commits.is_dir() and len(list(commits.glob("[!.]*.json"))) >= parts:
                os.killpg(run.pid, signal.SIGKILL)
                break
            time.sleep(0.002)
        run.wait()
        assert run.returncode == -signal.SIGKILL, "it had ended before it was killed"
        assert 0 < len(fleet.connect(folder).sql("select * from traces").fetchall()) < TRACES
    subprocess.run(command, check=True)
    assert fleet.fingerprint(folder) == fleet.fingerprint(store)
    assert not list(folder.rglob("*.tmp"))


def test_damaged_recordings_stop_nothing(recordings: Path, tmp_path: Path) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    files = sorted(recordings.glob("*.hitch"))[:6]
    for file in files:
        shutil.copy(file, folder)
    (folder / "empty.hitch").write_bytes(b"")
    (folder / "text.hitch").write_text("no trace")
    whole = files[0].read_bytes()
    (folder / "cut.hitch").write_bytes(whole[:100])
    result = fleet.ingest(folder, into=tmp_path / "store")
    names = {Path(file).name for file, _ in result.damaged}
    assert names == {"empty.hitch", "text.hitch", "cut.hitch"}
    assert result.added == 6 and all(why for _, why in result.damaged)
    again = fleet.ingest(folder, into=tmp_path / "store")
    assert (again.added, again.known, len(again.damaged)) == (0, 6, 3)


def test_two_writers_are_refused(store: Path, recordings: Path) -> None:
    with fleet._store.Store(store).locked():
        with pytest.raises(unhitch.UnhitchError, match="somebody else"):
            fleet.ingest(recordings, into=store)


def test_a_folder_of_something_else_is_left_alone(recordings: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    with pytest.raises(unhitch.UnhitchError, match="something else"):
        fleet.ingest(recordings, into=tmp_path)
    with pytest.raises(unhitch.UnhitchError, match="is no fleet"):
        fleet.report(recordings)


def test_a_real_recording_has_rows(starve: Path, tmp_path: Path) -> None:
    fleet.ingest(starve, into=tmp_path / "store")
    cause = fleet.report(tmp_path / "store").data["causes"][0]
    assert cause["pattern"] == "lock_starvation"
    assert cause["function"] == "unhitch_lab::starve::release_document"


TOOLS = {"address-space", "fairness"}
"""What `unhitch lab` lists that does not hang."""


def assert_causes_are_those_of_why(store: Path, files: list[Path]) -> int:
    """What each hang is depends on the machine's load; its rows must be what `why` says. Returns
    how many causes there are."""
    rows = fleet.connect(store).sql(
        "select trace_id, pattern, duration_ns from causes order by trace_id, stall"
    )
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    paths = fleet._store.Store(store).traces()
    for trace, pattern, duration in rows.fetchall():
        found[paths[trace]].append((pattern, duration))
    for file in files:
        stalls = unhitch.open(file).why(top=10_000).stalls
        expected = [(stall["cause"]["pattern"], stall["duration_ns"]) for stall in stalls]
        assert found[str(file)] == expected, file
    return sum(len(found[str(file)]) for file in files)


def test_live_recordings_of_the_lab_are_causes_of_a_fleet(program: str, tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    listed = subprocess.run([program, "lab"], capture_output=True, text=True, check=True).stdout
    hangs = {line.split()[0] for line in listed.splitlines() if line[:1].strip()} - TOOLS
    for name in hangs:
        words = [program, "record", "-o", str(folder / f"{name}.hitch"), "--", program, "lab", name]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        if not (folder / f"{name}.hitch").exists():
            pytest.skip(f"recording is not permitted here: {done.stderr.splitlines()[:1]}")
    result = fleet.ingest(folder, into=tmp_path / "store")
    assert (result.added, result.damaged) == (len(hangs), [])
    causes = assert_causes_are_those_of_why(tmp_path / "store", list(folder.iterdir()))
    assert causes >= len(hangs) // 2


def test_recordings_of_real_programs_change_no_figure_of_others(
    store: Path, recordings: Path, tmp_path: Path
) -> None:
    """Those that `make test-apps` left."""
    root = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("APPS_OUTPUT", root / "target" / "apps"))
    real = sorted(folder.rglob("*.hitch"))
    if not real:
        pytest.skip("`make test-apps` has made no recordings")
    both = tmp_path / "store"
    result = fleet.ingest([*real, *recordings.glob("*.hitch")], into=both)
    assert (result.added + result.known, result.damaged) == (len(real) + TRACES, [])
    assert_causes_are_those_of_why(both, real)

    def by_name(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
        causes = fleet.report(folder).data["causes"]
        return {(cause["pattern"], cause["function"]): cause for cause in causes}

    alone, together = by_name(store), by_name(both)
    assert len(together) > len(alone)
    for name, cause in alone.items():
        same = {key: value for key, value in cause.items() if key != "share"}
        assert {key: together[name][key] for key in same} == same


def test_a_folder_means_all_below_it_and_says_what_it_passes_over(
    recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from unhitch.__main__ import main

    share = tmp_path / "share"
    for host, file in zip("ab", sorted(recordings.glob("*.hitch"))):
        (share / host / "today").mkdir(parents=True)
        shutil.copy(file, share / host / "today")
    (share / "a" / "notes.txt").write_text("no trace")
    assert main(["fleet", "ingest", str(share), "--into", str(tmp_path / "store")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("2 added, 0 known already, 0 damaged") and "notes.txt" in said


def test_what_a_recorder_saw_is_in_its_row(starve: Path, tmp_path: Path) -> None:
    fleet.ingest(starve, into=tmp_path / "store")
    query = "select trigger, covered_ns, duration_ns, uncovered_events from traces"
    trigger, covered, duration, _ = fleet.connect(tmp_path / "store").sql(query).fetchall()[0]
    assert trigger is None and 0 < covered <= duration


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("std::vector<int, std::allocator<int>>::push_back(int const&)", "std::vector::push_back"),
        ("core::ptr::drop_in_place<T>::h0123456789abcdef", "core::ptr::drop_in_place"),
        ("do_work.isra.0", "do_work"),
        ("sleeper.constprop.3.cold", "sleeper"),
        ("libfoo.so.1.2+0x12af", "[libfoo.so.#.#]"),
        ("step_17", "step_#"),
        ("<alloc::vec::Vec<T> as Drop>::drop", "<alloc::vec::Vec as Drop>::drop"),
        ("operator<", "operator<"),
        ("", ""),
    ],
)
def test_names_are_the_same_in_every_build(name: str, normal: str) -> None:
    assert _native.normal_name(name) == normal


def test_statistics() -> None:
    # Fisher's tea: 3 of 4 right, by chance 17 of 70.
    assert _statistics.fisher(3, 4, 1, 4) == pytest.approx(17 / 70)
    assert _statistics.fisher(0, 10, 0, 10) == pytest.approx(1.0)
    assert _statistics.fisher(10, 10, 0, 10) == pytest.approx(1 / 184_756)
    # Benjamini and Hochberg 1995, table 1: four of fifteen at 0.05.
    chances = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459]
    chances += [0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert sum(rate <= 0.05 for rate in _statistics.false_discovery(chances)) == 4
    alike = [("a", frozenset("abcdefgh")), ("b", frozenset("abcdefgi")), ("c", frozenset("xyz"))]
    assert _statistics.clusters(alike) == [["a", "b"], ["c"]]
    assert _statistics.clusters([]) == []
