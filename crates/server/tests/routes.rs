//! Every route of a trace, on a real recording of a starved lock and on a synthetic one of
//! processes that exit one after the other: the routes agree with each other, and with the answer.

use crate::support::Served;
use serde_json::Value;
use std::collections::HashSet;

const STARVE: &str = "/api/t/starve.hitch";

fn judged() -> Served {
    let served = Served::new(1 << 20, |_| {});
    assert_eq!(served.until_judged("starve.hitch")["stage"], "ready");
    served
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or_else(|| panic!("no list: {value}"), Vec::as_slice)
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("no whole number: {value}"))
}

fn sum<'a>(values: impl IntoIterator<Item = &'a Value>) -> i64 {
    values.into_iter().map(number).sum()
}

/// The lane of the thread with a name.
fn lane_called(served: &Served, name: &str) -> Value {
    let lanes = served.ask(&format!("{STARVE}/lanes"));
    let mut threads =
        list(&lanes["processes"]).iter().flat_map(|process| list(&process["threads"]));
    threads
        .find(|thread| thread["name"] == name)
        .unwrap_or_else(|| panic!("no thread {name}"))
        .clone()
}

#[test]
fn a_summary_lists_what_the_trace_holds() {
    let served = judged();
    let summary = served.ask(&format!("{STARVE}/summary"));
    assert_eq!(
        (&summary["name"], &summary["format"], &summary["cpus"]),
        (&"starve.hitch".into(), &"hitch".into(), &2.into())
    );
    assert!(summary["start_ns"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    let codes: Vec<i64> =
        list(&summary["states"]).iter().map(|state| number(&state["code"])).collect();
    assert_eq!(codes, (0..codes.len() as i64).collect::<Vec<_>>());
    for key in ["switches", "wakings", "samples", "stacks", "threads", "processes", "modules"] {
        assert!(number(&summary[key]) > 0, "{key}");
    }
    // The first CPU's events begin at the origin; what the page shows begins where the last one's
    // do.
    let (from, whole) = (number(&summary["from"]), number(&summary["duration_ns"]));
    let spans = list(&summary["spans"]);
    let begins = |ns: i64| spans.iter().any(|span| number(&span["from"]) == ns);
    assert!(
        from > 0
            && begins(0)
            && begins(from)
            && spans.iter().any(|span| number(&span["to"]) == from + whole)
    );
    let marks = served.ask(&format!("{STARVE}/marks"));
    assert!(list(&marks["lives"]).iter().any(|life| life["name"] == "lab-starve"
        && life["started"] == true
        && life["ended"] == true));
    assert_eq!(list(&marks["losses"]), list(&summary["losses"]));
}

#[test]
fn what_windows_and_programs_noted_proves_the_sentences_about_it() {
    let served = Served::new(1 << 20, |folder| {
        std::fs::write(folder.join("mouse.etl"), unhitch_golden::move_my_mouse().etl()).unwrap();
        std::fs::write(folder.join("email.etl"), unhitch_golden::type_an_email().etl()).unwrap();
    });
    let stall = served.ask("/api/t/mouse.etl/stall/1");
    let links = |of: &Value, kind: &str, words: &str| -> Vec<Value> {
        let mut clauses = list(&of["clauses"]).iter();
        let clause = clauses.find(|clause| {
            clause["kind"] == kind && clause["text"].as_str().unwrap().contains(words)
        });
        list(&clause.unwrap_or_else(|| panic!("{words} is not in {}", of["text"]))["links"])
            .to_vec()
    };
    let reported = &links(&stall, "story", "Windows reported")[0];
    let event =
        served.ask(&format!("/api/t/mouse.etl/event?provider={}", reported["event"]["provider"]));
    assert_eq!(
        (&event["kind"], &event["provider"]),
        (&"provider".into(), &"Microsoft-Windows-Win32k".into())
    );
    assert_eq!(event["who"]["thread"], stall["victim"]["thread"]);
    assert!(
        list(&event["fields"])
            .contains(&serde_json::json!({ "name": "DelayTimeMs", "value": "1125" })),
        "{event}"
    );
    // Windows reports it when the delay is over.
    assert!((number(&event["time"]) - number(&stall["to"])).abs() < 1_000_000, "{event}");
    let machine = links(&stall, "machine", "idle meanwhile");
    assert!(
        machine.iter().all(|link| link["lane"].is_null() && link["event"].is_null())
            && machine.len() == 1,
        "{machine:?}"
    );
    assert!(links(&stall, "remedy", "").is_empty());
    assert_eq!(served.get("/api/t/mouse.etl/event?provider=4000000000").status, 404);

    // A key was pressed; which one is private.
    let marks = served.ask("/api/t/email.etl/marks");
    let keys = list(&marks["marks"])
        .iter()
        .filter(|mark| mark["kind"] == "input" && mark["label"] == "a key")
        .count();
    let table = served.ask(
        "/api/t/email.etl/table?table=events&by=&show=event,fields&where=event+~+key&limit=1000",
    );
    let shown: Vec<&str> =
        list(&table["rows"]).iter().filter_map(|row| row["cells"][1].as_str()).collect();
    assert!(keys > 20 && shown.len() == keys, "{keys} keys: {table}");
    assert!(shown.iter().all(|fields| *fields == "(private)"), "{shown:?}");
}

#[test]
fn lanes_begin_with_those_of_the_stall() {
    let served = judged();
    let lanes = served.ask(&format!("{STARVE}/lanes?stall=1"));
    let first = &lanes["processes"][0];
    assert_eq!(
        (&first["name"], &first["threads"][0]["name"]),
        (&"lab-starve".into(), &"typing".into())
    );
    let roles: Vec<&str> =
        list(&first["threads"]).iter().filter_map(|thread| thread["role"].as_str()).collect();
    assert_eq!(roles, ["victim", "culprit"]);
    // The CPUs are busy for as long as the threads run.
    let ran = sum(list(&lanes["processes"])
        .iter()
        .flat_map(|process| list(&process["threads"]))
        .map(|thread| &thread["ran_ns"]));
    let busy = sum(list(&lanes["cpus"]).iter().map(|cpu| &cpu["busy_ns"]));
    assert!((ran - busy).abs() * 100 < busy, "threads ran {ran}, CPUs were busy {busy}");
    // A window inside holds no more than the whole.
    let part = served.ask(&format!("{STARVE}/lanes?from=1000000000&to=1500000000"));
    for cpu in list(&part["cpus"]) {
        assert!(number(&cpu["busy_ns"]) <= 500_000_000);
    }
    let thread = number(&lane_called(&served, "keyboard")["thread"]);
    let selected = served.ask(&format!("{STARVE}/lanes?thread={thread}"));
    assert_eq!(selected["processes"][0]["threads"][0]["role"], "selected");
    assert_eq!(served.get(&format!("{STARVE}/lanes?stall=99")).status, 404);
}

/// The binary answer of `view`, read as the page reads it.
struct View {
    bytes: Vec<u8>,
    lanes: usize,
    columns: u32,
    slices: usize,
    cells: usize,
}

/// Start, end, thread, event, wake, state.
type Slice = (f64, f64, u32, u32, u32, u8);

/// Thread, column, state, cover.
type Cell = (u32, u16, u8, u8);

impl View {
    fn new(bytes: Vec<u8>) -> Self {
        let mut view = Self { bytes, lanes: 0, columns: 0, slices: 0, cells: 0 };
        assert_eq!(&view.bytes[..4], b"UHV1");
        (view.lanes, view.columns) = (view.u32(4) as usize, view.u32(24));
        (view.slices, view.cells) = (view.u32(28) as usize, view.u32(32) as usize);
        let length = view.arrays() + view.slices * 29 + view.cells * 8;
        assert_eq!(
            view.bytes.len(),
            length,
            "header, lanes, {} slices, {} cells",
            view.slices,
            view.cells
        );
        view
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    fn f64(&self, at: usize) -> f64 {
        f64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    fn arrays(&self) -> usize {
        (40 + self.lanes * 24).next_multiple_of(8)
    }

    /// Kind, number, first slice, slices, first cell, cells.
    fn lane(&self, lane: usize) -> [usize; 6] {
        std::array::from_fn(|at| self.u32(40 + lane * 24 + at * 4) as usize)
    }

    fn slices_of(&self, lane: usize) -> Vec<Slice> {
        let [_, _, first, count, ..] = self.lane(lane);
        (first..first + count).map(|at| self.slice(at)).collect()
    }

    fn cells_of(&self, lane: usize) -> Vec<Cell> {
        let [.., first, count] = self.lane(lane);
        (first..first + count).map(|at| self.cell(at)).collect()
    }

    fn slice(&self, at: usize) -> Slice {
        let (base, n, m) = (self.arrays(), self.slices, self.cells);
        let word = |array: usize| self.u32(base + n * 16 + array * n * 4 + at * 4);
        let state = self.bytes[base + n * 28 + m * 6 + at];
        (self.f64(base + at * 8), self.f64(base + n * 8 + at * 8), word(0), word(1), word(2), state)
    }

    fn cell(&self, at: usize) -> Cell {
        let (base, n, m) = (self.arrays(), self.slices, self.cells);
        let column = base + n * 28 + m * 4 + at * 2;
        let column = u16::from_le_bytes(self.bytes[column..column + 2].try_into().unwrap());
        let bytes = base + n * 29 + m * 6;
        (
            self.u32(base + n * 28 + at * 4),
            column,
            self.bytes[bytes + at],
            self.bytes[bytes + m + at],
        )
    }
}

/// The lanes of [`view_of_the_hang`], by what they show.
mod lane {
    pub const CPU_1: usize = 1;
    pub const TYPING: usize = 2;
    pub const INSPECTOR: usize = 3;
    pub const SAMPLES: std::ops::Range<usize> = 4..6;
    /// A thread that does not exist.
    pub const NOBODY: usize = 6;
    pub const COUNT: usize = 7;
}

/// The window of [`view_of_the_hang`] in nanoseconds, and its width in pixels.
const HANG: (f64, f64, u32) = (500_000_000.0, 2_600_000_000.0, 700);

fn view_of_the_hang(served: &Served) -> View {
    let (from, to, pixels) = HANG;
    let [typing, inspector] = ["typing", "inspector"]
        .map(|name| lane_called(served, name)["lane"].as_str().unwrap().to_owned());
    let lanes = format!("c0,c1,{typing},{inspector},s{inspector},sc1,t999999");
    let answer =
        served.get(&format!("{STARVE}/view?from={from}&to={to}&px={pixels}&lanes={lanes}"));
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/octet-stream"))
    );
    View::new(answer.body)
}

#[test]
fn a_view_is_what_the_page_reads() {
    let (from, to, pixels) = HANG;
    let view = view_of_the_hang(&judged());
    assert_eq!(
        (view.lanes, view.columns, view.f64(8), view.f64(16)),
        (lane::COUNT, pixels, from, to)
    );
    let column = (to - from) / f64::from(pixels);
    let mut next = (0, 0);
    for lane in 0..view.lanes {
        let [_, _, first_slice, slices, first_cell, cells] = view.lane(lane);
        assert_eq!((first_slice, first_cell), next);
        next = (first_slice + slices, first_cell + cells);
        // Slices of samples may be narrow, or empty.
        let is_samples = lane >= lane::SAMPLES.start;
        let mut last = f64::MIN;
        for (start, end, _, _, _, state) in view.slices_of(lane) {
            assert!(
                start >= last && (end > start || is_samples) && state < 12,
                "lane {lane}: {start} {end} {state}"
            );
            assert!(
                is_samples || end - start >= 3.0 * column - 1.0,
                "only wide slices are sent as such"
            );
            last = end;
        }
        let columns: Vec<u16> = view.cells_of(lane).into_iter().map(|cell| cell.1).collect();
        assert!(
            columns.is_sorted_by(|a, b| a < b)
                && columns.iter().all(|&column| u32::from(column) < pixels)
        );
    }
    assert_eq!(next, (view.slices, view.cells));
    let [_, _, _, slices, _, cells] = view.lane(lane::NOBODY);
    assert_eq!((slices, cells), (0, 0));
    // Millisecond waits for the lock are cells at this scale.
    let cells = view.cells_of(lane::TYPING);
    let locked = cells.iter().filter(|cell| cell.2 == 3).count();
    assert!(locked > 300, "{locked} columns of {}", cells.len());
}

#[test]
fn slices_of_a_view_agree_with_other_lanes_and_with_their_events() {
    let served = judged();
    let view = view_of_the_hang(&served);
    // The inspector had CPU 1 for most of this: its slices are the same on both lanes.
    let inspector = number(&lane_called(&served, "inspector")["thread"]) as u32;
    let on_cpu: Vec<_> = view
        .slices_of(lane::CPU_1)
        .into_iter()
        .filter(|slice| slice.2 == inspector)
        .map(|slice| (slice.0, slice.1))
        .collect();
    let ran: Vec<_> = view
        .slices_of(lane::INSPECTOR)
        .into_iter()
        .filter(|slice| slice.5 == 1)
        .map(|slice| (slice.0, slice.1))
        .collect();
    assert!(!ran.is_empty() && ran == on_cpu, "{ran:?} {on_cpu:?}");
    // A slice's events are those at its start and its end.
    let of_threads = [lane::TYPING, lane::INSPECTOR].map(|lane| view.slices_of(lane)).concat();
    for (start, end, _, event, wake, state) in of_threads {
        if event != u32::MAX {
            let event = served.ask(&format!("{STARVE}/event?switch={event}"));
            assert_eq!(event["time"].as_f64().unwrap(), start, "state {state}");
        }
        if wake != u32::MAX && state != 2 {
            let waking = served.ask(&format!("{STARVE}/event?waking={wake}"));
            assert_eq!(waking["time"].as_f64().unwrap(), end, "state {state}");
        }
    }
}

#[test]
fn a_view_names_the_parameter_that_is_wrong() {
    let served = judged();
    for (query, expected) in [
        ("lanes=x1", "lanes"),
        ("px=0", "px"),
        ("px=9000", "px"),
        ("px=x", "px"),
        ("from=5&to=5", "to"),
        ("from=9&to=5", "to"),
        ("from=x", "from"),
    ] {
        let answer = served.get(&format!("{STARVE}/view?{query}"));
        assert_eq!(answer.status, 400, "{query}");
        assert!(
            answer.json()["error"].as_str().unwrap().starts_with(expected),
            "{}",
            answer.text()
        );
    }
}

#[test]
fn the_curve_adds_up_to_what_the_cpus_did() {
    let served = judged();
    let curve = served.ask(&format!("{STARVE}/curve?px=100"));
    let lanes = served.ask(&format!("{STARVE}/lanes"));
    let busy: f64 = list(&curve["busy"]).iter().map(|share| share.as_f64().unwrap()).sum::<f64>()
        / 100.0
        * curve["to"].as_f64().unwrap();
    let expected = sum(list(&lanes["cpus"]).iter().map(|cpu| &cpu["busy_ns"])) as f64;
    assert!((busy - expected).abs() < expected * 0.01, "{busy} {expected}");
}

#[test]
fn slices_follow_one_another() {
    let served = judged();
    let whole = number(&served.ask(&format!("{STARVE}/summary"))["duration_ns"]);
    for lane in [lane_called(&served, "typing")["lane"].as_str().unwrap(), "c1"] {
        let mut slice = served.ask(&format!("{STARVE}/slice?lane={lane}&at=1000000000"));
        assert!(number(&slice["from"]) <= 1_000_000_000 && number(&slice["to"]) > 1_000_000_000);
        for _ in 0..20 {
            let next =
                served.ask(&format!("{STARVE}/slice?lane={lane}&at={}&step=1", slice["from"]));
            assert_eq!(next["from"], slice["to"]);
            let back =
                served.ask(&format!("{STARVE}/slice?lane={lane}&at={}&step=-1", next["from"]));
            assert_eq!(back, slice);
            slice = next;
        }
    }
    let thread = lane_called(&served, "typing");
    let lane = thread["lane"].as_str().unwrap();
    let in_wait = served.ask(&format!("{STARVE}/slice?lane={lane}&at=1000000000"));
    assert_eq!(
        (&in_wait["state"], &in_wait["wake"]["by"]["name"]),
        (&"lock".into(), &"inspector".into()),
        "{in_wait}"
    );
    let stack =
        served.ask(&format!("{STARVE}/stack?kind=wait&id={}", in_wait["wait_stack"]["stack"]));
    let functions: Vec<&str> =
        list(&stack["frames"]).iter().map(|frame| frame["function"].as_str().unwrap()).collect();
    let place = |part: &str| {
        functions
            .iter()
            .position(|name| name.contains(part))
            .unwrap_or_else(|| panic!("{part}: {functions:?}"))
    };
    assert!(
        place("start_thread") < place("lock_document")
            && place("lock_document") < place("futex_wait"),
        "root first: {functions:?}"
    );
    assert_eq!(stack["class"], "lock");
    assert_eq!(served.get(&format!("{STARVE}/slice?lane={lane}&at={}", whole + 1)).status, 404);
    assert_eq!(served.get(&format!("{STARVE}/slice?lane=t1000000&at=5")).status, 404);
    assert_eq!(served.get(&format!("{STARVE}/slice?lane={lane}")).status, 400);
    let samples = served.ask(&format!(
        "{STARVE}/slice?lane=s{}&at=0",
        lane_called(&served, "inspector")["lane"].as_str().unwrap()
    ));
    let after = served.ask(&format!(
        "{STARVE}/slice?lane={}&at={}&step=1",
        samples["lane"].as_str().unwrap(),
        samples["from"]
    ));
    assert!(number(&after["from"]) > number(&samples["from"]));
}

#[test]
fn the_stall_is_shown_in_full_and_adds_up() {
    let served = judged();
    let stalls = served.ask(&format!("{STARVE}/stalls"));
    assert_eq!(stalls["ready"], true);
    let first = &stalls["stalls"][0];
    assert_eq!(
        (&first["id"], &first["pattern"], &first["culprit"]["name"]),
        (&1.into(), &"lock_starvation".into(), &"inspector".into())
    );
    let stall = served.ask(&format!("{STARVE}/stall/1"));
    adds_up(&stall);
    assert!(list(&stall["arrows"]).len() > 100, "each of many wake-ups in vain");
    assert!(stall["text"].as_str().unwrap().contains("in vain"));
    assert_eq!(stall["clauses"][0]["kind"], "headline");
    let inside = |from: i64, to: i64| {
        list(&served.ask(&format!("{STARVE}/stalls?from={from}&to={to}"))["stalls"]).len()
    };
    assert_eq!(
        (inside(1_000_000_000, 1_100_000_000), inside(2_900_000_000, 3_000_000_000)),
        (1, 0)
    );
    for id in ["0", "2000", "x", "-1"] {
        assert_eq!(served.get(&format!("{STARVE}/stall/{id}")).status, 404, "{id}");
    }
    let victim = number(&stall["victim"]["thread"]);
    let explained =
        served.ask(&format!("{STARVE}/explain?thread={victim}&from=1000000000&to=1100000000"));
    assert_eq!(
        (&explained["kind"], number(&explained["duration_ns"])),
        (&"mark".into(), 100_000_000)
    );
    adds_up(&explained);
    assert_eq!(served.get(&format!("{STARVE}/explain?thread=100000&from=0&to=5")).status, 404);
    assert_eq!(served.get(&format!("{STARVE}/explain?from=0&to=5")).status, 400);
}

/// The links of the chain leave no gap, the shares of the partition sum to the stall, and every
/// named lane exists.
fn adds_up(stall: &Value) {
    let whole = number(&stall["duration_ns"]);
    assert_eq!(sum(list(&stall["partition"]).iter().map(|share| &share["ns"])), whole);
    let chain = list(&stall["chain"]);
    assert_eq!(sum(chain.iter().map(|link| &link["ns"])), whole);
    let mut at = number(&stall["from"]);
    for link in chain {
        assert_eq!(number(&link["from"]), at);
        at = number(&link["to"]);
    }
    assert_eq!(at, number(&stall["to"]));
    let lanes: HashSet<&str> =
        list(&stall["lanes"]).iter().map(|lane| lane["lane"].as_str().unwrap()).collect();
    assert_eq!(stall["lanes"][0]["role"], "victim");
    for arrow in list(&stall["arrows"]) {
        assert!(
            lanes.contains(arrow["from_lane"].as_str().unwrap())
                && lanes.contains(arrow["to_lane"].as_str().unwrap()),
            "{arrow}"
        );
        // The wake-up of a wait that outlasts the window comes after it.
        assert!(number(&arrow["at"]) >= number(&stall["from"]), "{arrow}");
    }
    for clause in list(&stall["clauses"]) {
        let length = clause["text"].as_str().unwrap().encode_utf16().count() as i64;
        for link in list(&clause["links"]) {
            assert!(
                number(&link["start"]) < number(&link["end"]) && number(&link["end"]) <= length,
                "{clause}"
            );
            assert!(number(&link["from"]) <= number(&link["to"]), "{clause}");
        }
    }
}

/// The waits of the trace inside the groups that are opened by `path`.
fn level(served: &Served, path: &[String]) -> Value {
    let path = serde_json::to_string(path)
        .unwrap()
        .replace('"', "%22")
        .replace('[', "%5B")
        .replace(']', "%5D")
        .replace(' ', "+");
    let by = "process,thread,reason,wait+stack";
    served.ask(&format!("{STARVE}/table?table=waits&by={by}&path={path}"))
}

#[test]
fn tables_open_level_by_level() {
    let served = judged();
    // Down the heaviest group of each level: what is inside sums to what the group shows.
    let mut path: Vec<String> = Vec::new();
    let mut opened: Option<Value> = None;
    for depth in 0..4 {
        let answer = level(&served, &path);
        assert_eq!((number(&answer["level"]), answer["cut"].as_bool()), (depth, Some(false)));
        let rows = list(&answer["rows"]);
        assert_eq!(number(&answer["total"]), rows.len() as i64);
        for column in [1_usize, 2] {
            let whole = sum(rows.iter().map(|row| &row["cells"][column]));
            assert_eq!(whole, number(&answer["totals"][column]));
            if let Some(group) = &opened {
                assert_eq!(whole, number(&group["cells"][column]));
            }
        }
        path.push(rows[0]["key"].as_str().unwrap().to_owned());
        opened = Some(rows[0].clone());
    }
    let leaf = level(&served, &path);
    assert_eq!(
        (number(&leaf["matched"]), leaf["by"].is_null()),
        (number(&opened.unwrap()["children"]), true)
    );
    let row = &leaf["rows"][0];
    assert!(
        row["lane"].as_str().unwrap().starts_with('t') && number(&row["from"]) < number(&row["to"]),
        "{row}"
    );
}

#[test]
fn a_page_or_a_selection_narrows_a_table() {
    let served = judged();
    // A page of rows is a part of all of them, in their order.
    let all = served.ask(&format!("{STARVE}/table?table=waits&by=&limit=50"));
    let page = served.ask(&format!("{STARVE}/table?table=waits&by=&limit=10&offset=20"));
    assert_eq!(list(&page["rows"]), &list(&all["rows"])[20..30]);
    assert_eq!((page["cut"].as_bool(), &page["total"]), (Some(true), &all["total"]));
    // A selection narrows, exactly.
    let thread = number(&lane_called(&served, "typing")["thread"]);
    let narrowed = served.ask(&format!(
        "{STARVE}/table?table=waits&by=thread&thread={thread}&from=1000000000&to=1200000000"
    ));
    assert_eq!(
        (list(&narrowed["rows"]).len(), &narrowed["rows"][0]["cells"][0]),
        (1, &"typing".into())
    );
    let filtered = served.ask(&format!(
        "{STARVE}/table?table=waits&by=thread&where=thread+%3D+typing+and+reason+%3D+lock"
    ));
    assert_eq!(filtered["rows"][0]["cells"][0], "typing");
    let ignored = served.ask(&format!("{STARVE}/table?table=cpus&thread={thread}"));
    assert_eq!(ignored["ignored"], serde_json::json!(["thread", "process"]));
}

#[test]
fn every_table_and_every_preset_has_rows() {
    let served = judged();
    let tables = served.ask("/api/tables");
    assert_eq!(tables, served.ask(&format!("{STARVE}/tables")));
    for table in list(&tables["tables"]) {
        let name = table["table"].as_str().unwrap();
        let answer = served.ask(&format!("{STARVE}/table?table={name}&limit=3"));
        // Events of providers are in Windows traces only, nobody marked anything, and the example is
        // older than the counters.
        let rows = list(&answer["rows"]);
        assert!(
            rows.is_empty() == ["events", "marks", "counters"].contains(&name) && rows.len() <= 3,
            "{name}"
        );
        assert_eq!(list(&answer["not_recorded"]).is_empty(), name != "counters", "{name}");
    }
    for preset in list(&tables["presets"]) {
        let words = |key: &str| {
            list(&preset[key])
                .iter()
                .map(|word| word.as_str().unwrap())
                .collect::<Vec<_>>()
                .join(",")
                .replace(' ', "+")
        };
        let path = format!(
            "{STARVE}/table?table={}&by={}&show={}&sort={}",
            preset["table"].as_str().unwrap(),
            words("by"),
            words("show"),
            preset["sort"].as_str().unwrap().replace(' ', "+")
        );
        // The same exception.
        let is_empty = preset["table"] == "events" || preset["table"] == "counters";
        assert!(list(&served.ask(&path)["rows"]).is_empty() == is_empty, "{path}");
    }
}

#[test]
fn a_table_names_the_parameter_that_is_wrong() {
    let served = judged();
    for (query, expected) in [
        ("", "table"),
        ("table=nope", "table"),
        ("table=waits&by=nope", "nope"),
        ("table=waits&where=%28", "where"),
        ("table=waits&path=x", "path"),
        ("table=waits&by=thread&path=%5B%22z%22%5D", "path"),
        ("table=waits&path=%5B%22tx%22%5D", "path"),
        ("table=waits&limit=0", "limit"),
        ("table=waits&thread=99999", "thread"),
        ("table=waits&sort=nope", "nope"),
        ("table=waits&by=thread&show=waited", "waited"),
    ] {
        let answer = served.get(&format!("{STARVE}/table?{query}"));
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
        assert!(
            answer.json()["error"].as_str().unwrap().contains(expected),
            "{query}: {}",
            answer.text()
        );
    }
}

#[test]
fn a_wrong_filter_says_where_it_is_wrong_as_browsers_count() {
    let served = judged();
    for (filter, at) in [("waited+%3E%3E+5", 8), ("thread+%3D+%F0%9F%98%80+nope", 12)] {
        let answer = served.get(&format!("{STARVE}/table?table=waits&where={filter}"));
        assert_eq!(
            (answer.status, &answer.json()["at"]),
            (400, &serde_json::json!(at)),
            "{filter}"
        );
    }
}

#[test]
fn a_series_sums_to_what_its_table_sums_to() {
    let served = judged();
    for (table, by, measure) in [
        ("waits", "reason", "waited"),
        ("switches", "process", "ran+for"),
        ("switches", "thread", "runnable"),
        ("wakes", "woken+by", "waited"),
        ("samples", "function", "weight"),
    ] {
        for (px, groups) in [(1, 24), (97, 3), (1600, 1)] {
            let series = served.ask(&format!(
                "{STARVE}/series?table={table}&by={by}&measure=sum:{measure}&px={px}&groups={groups}"
            ));
            let sum = |values: &Value| list(values).iter().map(number).sum::<i64>();
            let shown = list(&series["groups"]);
            assert!(!shown.is_empty() && shown.len() <= groups, "{table} by {by}");
            for group in shown {
                assert_eq!(list(&group["values"]).len(), px);
                assert_eq!(sum(&group["values"]), number(&group["total"]), "{table} by {by}");
            }
            let whole: i64 = shown.iter().map(|group| number(&group["total"])).sum();
            let all = whole + sum(&series["others"]);
            let one =
                served.ask(&format!("{STARVE}/series?table={table}&measure=sum:{measure}&px=1"));
            assert_eq!(all, number(&one["groups"][0]["total"]), "{table} by {by}");
            if table == "waits" {
                let rows =
                    served.ask(&format!("{STARVE}/table?table=waits&by={by}&show=sum:waited"));
                assert_eq!(all, number(&rows["totals"][1]));
            }
        }
    }
    for (query, expected) in [
        ("table=waits&measure=sum:reason", "measure"),
        ("table=threads&measure=sum:ran", "measure"),
        ("table=waits&by=nope", "by"),
        ("table=waits&begin=5&end=5", "end"),
        ("table=waits&px=0", "px"),
    ] {
        let answer = served.get(&format!("{STARVE}/series?{query}"));
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
        assert!(answer.json()["error"].as_str().unwrap().contains(expected), "{query}");
    }
}

#[test]
fn flames_and_butterflies_weigh_what_the_tables_sum() {
    let served = judged();
    let thread = number(&lane_called(&served, "typing")["thread"]);
    let table = served.ask(&format!("{STARVE}/table?table=waits&by=thread&thread={thread}"));
    let waited = number(&table["rows"][0]["cells"][2]);
    for inverted in [0, 1] {
        let flame = served
            .ask(&format!("{STARVE}/flame?of=wait&thread={thread}&px=1000&inverted={inverted}"));
        assert_eq!(number(&flame["total"]), waited);
        let nodes = &flame["nodes"];
        let column = |name: &str| list(&nodes[name]).iter().map(number).collect::<Vec<_>>();
        let (parent, value, own, name) =
            (column("parent"), column("value"), column("self"), column("name"));
        assert_eq!((parent[0], value[0]), (-1, waited));
        let mut inside = own.clone();
        for at in 1..parent.len() {
            assert!(parent[at] >= 0 && (parent[at] as usize) < at, "a parent comes first");
            inside[parent[at] as usize] += value[at];
        }
        let keys = column("key");
        for at in 0..parent.len() {
            assert!(
                keys[at] == -1 || inside[at] == value[at],
                "node {at} holds {} of {}",
                inside[at],
                value[at]
            );
            assert!((name[at] as usize) < list(&flame["strings"]).len());
        }
        // Rooted at a node below, the answer includes its ancestors.
        let below = (1..parent.len()).find(|&at| parent[at] == 0 && keys[at] != -1).unwrap();
        let next =
            (1..parent.len()).find(|&at| parent[at] == below as i64 && keys[at] != -1).unwrap();
        let rooted = served.ask(&format!(
            "{STARVE}/flame?of=wait&thread={thread}&inverted={inverted}&root={}.{}",
            keys[below], keys[next]
        ));
        assert_eq!((number(&rooted["root_value"]), list(&rooted["root"]).len()), (value[next], 2));
    }
    let ranking = served.ask(&format!("{STARVE}/butterfly?of=wake&limit=5"));
    assert_eq!(list(&ranking["ranking"]).len(), 5);
    let butterfly = served.ask(&format!("{STARVE}/butterfly?of=wake&function=release_document"));
    assert_eq!(butterfly["callers"]["total_ns"], butterfly["callees"]["total_ns"]);
    assert!(butterfly["callees"]["name"].as_str().unwrap().ends_with("release_document"));
    // On other stacks, and on none.
    let elsewhere = served.ask(&format!("{STARVE}/butterfly?of=wait&function=release_document"));
    assert!(elsewhere["callers"].is_null() && elsewhere["callees"].is_null());
    assert_eq!(
        served.get(&format!("{STARVE}/butterfly?of=wake&function=no_such_function")).status,
        404
    );
    for query in ["of=x", "by=line", "px=0", "root=x", "inverted=2", "thread=x"] {
        assert_eq!(served.get(&format!("{STARVE}/flame?{query}")).status, 400, "{query}");
    }
}

#[test]
fn samples_are_listed_by_function_and_by_address() {
    let served = judged();
    let hot = served.ask(&format!("{STARVE}/hot"));
    assert!(hot["functions"][0]["function"].as_str().unwrap().ends_with("count_pages"));
    assert_eq!(
        sum(list(&hot["functions"]).iter().map(|place| &place["samples"])),
        number(&hot["samples"])
    );
    // Numbers that a browser cannot represent are sent as text.
    let listing = served.ask(&format!("{STARVE}/hot?function=anything"));
    assert_eq!(
        (&listing["lines"][0]["address"], &listing["lines"][0]["offset"]),
        (&"0xffffffffffffffff".into(), &"0x1234".into())
    );
    assert_eq!((&listing["source"], listing.get("instructions")), (&"/bin/x".into(), None));
    assert_eq!(served.get(&format!("{STARVE}/hot?function=nowhere")).status, 400);
    // A selected function restricts both: the samples with it on their stacks.
    assert_eq!(listing["samples"], hot["samples"]);
    let with = "where=stack+~+'count_pages'";
    let (within, listing) = (
        served.ask(&format!("{STARVE}/hot?{with}")),
        served.ask(&format!("{STARVE}/hot?function=x&{with}")),
    );
    let (own, whole) = (number(&hot["functions"][0]["samples"]), number(&hot["samples"]));
    assert!(
        (own..whole).contains(&number(&within["samples"])),
        "{own} of {whole}: {}",
        within["samples"]
    );
    assert_eq!(listing["samples"], within["samples"]);
    assert_eq!(served.get(&format!("{STARVE}/hot?where=stak+~+x")).status, 400);
}

#[test]
fn names_are_found_by_text_and_by_pattern() {
    let served = judged();
    let found = served.ask(&format!("{STARVE}/search?q=TYPI"));
    assert_eq!(
        (&found["threads"][0]["who"]["name"], number(&found["total"]["threads"])),
        (&"typing".into(), 1)
    );
    let tid = &found["threads"][0]["who"]["tid"];
    assert_eq!(
        served.ask(&format!("{STARVE}/search?q={tid}&in=threads"))["threads"][0]["who"]["tid"],
        *tid
    );
    let found = served
        .ask(&format!("{STARVE}/search?q=%3A%3Arelease_%5Ba-z%5D%2B%24&regex=1&in=functions"));
    assert!(
        found["functions"][0]["name"].as_str().unwrap().ends_with("::release_document"),
        "{found}"
    );
    assert!(number(&found["functions"][0]["wakes"]) > 0);
    let long = "x".repeat(500);
    for query in [
        "q=",
        "q=%28&regex=1",
        "q=x&in=cats",
        "q=%28x%7B1000%7D%29%7B1000%7D&regex=1",
        &format!("q={long}"),
    ] {
        assert_eq!(served.get(&format!("{STARVE}/search?{query}")).status, 400, "{query}");
    }
}

#[test]
fn the_report_is_one_file_that_fetches_nothing() {
    let served = judged();
    let answer = served.get(&format!("{STARVE}/report"));
    assert_eq!(
        (answer.status, answer.header("content-disposition")),
        (200, Some("attachment; filename=\"starve.hitch.html\""))
    );
    let html = answer.text();
    assert!(
        html.contains("lock starvation")
            && html.contains("<svg")
            && html.matches("<table>").count() >= 4
    );
    for foreign in ["<script", "src=", "@import", "url(http", "<link"] {
        assert!(!html.contains(foreign), "{foreign}");
    }
}

#[test]
fn a_synthetic_trace_answers_alike() {
    let served = Served::new(1 << 20, |folder| {
        unhitch_golden::move_my_mouse().write(&folder.join("mouse.hitch")).unwrap()
    });
    assert_eq!(served.until_judged("mouse.hitch")["stage"], "ready");
    let golden = "/api/t/mouse.hitch";
    let stalls = served.ask(&format!("{golden}/stalls"));
    assert_eq!(stalls["stalls"][0]["pattern"], "serialized_exit", "{stalls}");
    for stall in list(&stalls["stalls"]) {
        adds_up(&served.ask(&format!("{golden}/stall/{}", stall["id"])));
    }
    let lanes = served.ask(&format!("{golden}/lanes?stall=1"));
    let threads: Vec<&str> = list(&lanes["processes"])
        .iter()
        .flat_map(|process| list(&process["threads"]))
        .map(|thread| thread["lane"].as_str().unwrap())
        .collect();
    let some = threads[..threads.len().min(60)].join(",");
    let answer = served.get(&format!("{golden}/view?px=1600&lanes=c0,c1,{some}"));
    let view = View::new(answer.body);
    assert_eq!(view.lanes, 2 + threads.len().min(60));
    for route in [
        "summary",
        "marks",
        "curve",
        "table?table=wakes&by=woken+by",
        "flame?of=wake",
        "butterfly?of=wake",
        "hot",
        "search?q=a",
    ] {
        served.ask(&format!("{golden}/{route}"));
    }
}

#[test]
fn a_request_that_is_dropped_is_not_answered_and_hurts_nobody() {
    use std::io::Write;
    let served = judged();
    for _ in 0..50 {
        let mut stream = served.connect();
        stream
            .write_all(
                format!(
                    "{}\r\n\r\n",
                    served.head("GET", &format!("{STARVE}/flame?of=wait&px=4000"))
                )
                .as_bytes(),
            )
            .unwrap();
        drop(stream);
    }
    served.ask(&format!("{STARVE}/flame?of=wait"));
    served.assert_alive();
    let answer = served.get("/api/t/none.hitch/summary");
    assert_eq!((answer.status, answer.json()["error"].as_str()), (404, Some("no such trace")));
    assert_eq!(served.get("/api/nothing").status, 404);
    assert_eq!(served.get(&format!("{STARVE}/nothing")).status, 404);
}
