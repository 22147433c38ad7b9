//! An ordinary user attacks a recorder that runs as root (`make test-hostile`).
//!
//! An attack may cost nothing but function names: the trace is saved and opens, in time and within
//! our memory limits, and contains nothing of root's; and the recorder keeps running. The test runs
//! in its own mount namespace, with empty /tmp, /run and /var/lib, and starts itself again as the
//! other user, so nothing is left behind, however it ends.
#![cfg(target_os = "linux")]

mod attacker;
mod bombs;
mod deeds;
mod elf;
mod fuse;
mod harness;
mod sieges;
mod sys;
mod usage;

use harness::{Attempt, Costs, Miss, Programs, Stage, USER, Watch, fail};
use rustix::fs::inotify;
use sieges::Siege;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// How much longer a save may take under attack.
const DELAY: Duration = Duration::from_secs(2);
/// Maximum memory of the recorder and its children together.
const MEBIBYTES: u64 = 512;
/// Maximum number of tries for an attack that only cost time.
const TRIES: usize = 3;

/// The kind of an attack.
enum Way {
    /// It continues while root records, saves, scans and reads traces.
    Siege(fn(&Stage) -> Attempt<Siege>),
    /// It is against a single command, and checks the result itself.
    Deed(fn(&Stage) -> Attempt<Costs>),
}

use Way::{Deed, Siege as Besiege};

/// All attacks: those that once succeeded are marked with "seen".
const ATTACKS: &[(&str, Way)] = &[
    ("a mapped library, cut while it is read (seen)", Besiege(sieges::cut_library)),
    ("a mapped library, replaced over and over", Besiege(sieges::replaced_library)),
    ("a deleted library", Besiege(sieges::deleted_library)),
    ("a library replaced by a link to root's (seen)", Besiege(sieges::library_link_to_root)),
    ("a library replaced by a link to /proc/kmsg (seen)", Besiege(sieges::library_link_to_kmsg)),
    (
        "a library replaced by a link to trace_pipe (seen)",
        Besiege(sieges::library_link_to_trace_pipe),
    ),
    ("a library replaced by a link to /proc/self/mem", Besiege(sieges::library_link_to_memory)),
    ("a library on files that never answer", Besiege(sieges::silent_library)),
    ("a debug file of 200 GB (seen)", Besiege(sieges::endless_debug_file)),
    ("a debug file that is a link to root's", Besiege(sieges::debug_link_to_root)),
    ("sections of 8 GB in a file of 100 GB (seen)", Besiege(sieges::huge_sections)),
    ("packed sections of 1 GB", Besiege(sieges::packed_sections)),
    ("a packed symbol table of 256 MB", Besiege(sieges::packed_symbols)),
    ("a symbol's name of 256 MB", Besiege(sieges::endless_names)),
    ("100,000 functions inlined in themselves", Besiege(sieges::endless_dwarf)),
    ("a false Python whose frames go in circles", Besiege(sieges::false_python)),
    ("three perf maps of 264 MB (seen)", Besiege(sieges::long_perf_maps)),
    ("a perf map that is a link to root's (seen)", Besiege(sieges::perf_map_link)),
    ("the same in a namespace of the user's (seen)", Besiege(sieges::perf_map_namespace_link)),
    ("root's file bound over a perf map there (seen)", Besiege(sieges::perf_map_bind)),
    ("a perf map that is a hard link to root's", Besiege(sieges::perf_map_hard_link)),
    ("a perf map that is a FIFO", Besiege(sieges::perf_map_fifo)),
    ("a perf map on files that never answer", Besiege(sieges::silent_perf_map)),
    ("12 futexes on files that never answer", Besiege(sieges::silent_futexes)),
    ("processes that come and go", Besiege(sieges::short_lived)),
    ("10,000 mappings of code", Besiege(sieges::code_mappings)),
    ("10,000 mapped files", Besiege(sieges::file_mappings)),
    ("5,000 threads with escapes in their names", Besiege(sieges::thousands_of_threads)),
    ("a command line of 2 MB, a path of 4 KB", Besiege(sieges::long_words)),
    ("a client that sends a byte a second (seen)", Besiege(sieges::slow_client)),
    ("100 such clients", Besiege(sieges::many_clients)),
    ("an endless request", Besiege(sieges::endless_line)),
    ("a stranger at root's socket", Deed(deeds::stranger_at_the_socket)),
    ("a stranger's socket for a user's save (seen)", Deed(deeds::squatter_at_the_socket)),
    ("500 slow clients of the page", Deed(deeds::slow_clients_of_the_page)),
    ("-o is a dangling link in a sticky folder", Deed(deeds::output_is_a_dangling_link)),
    ("-o is a FIFO there", Deed(deeds::output_is_a_fifo)),
    ("-o is another's file there", Deed(deeds::output_is_anothers_file)),
    ("-o becomes a link there meanwhile", Deed(deeds::output_appears)),
    ("a trace read while it is written (seen)", Deed(deeds::peek_at_traces)),
    ("a trace whose records unpack to 2 GB", Deed(deeds::bomb_of_records)),
    ("a trace whose names unpack to 2 GB", Deed(deeds::bomb_of_names)),
    ("an archive of a million members", Deed(deeds::million_members)),
    ("a trace, cut while root reads it", Deed(deeds::cut_trace)),
    ("root's files through capabilities (seen)", Deed(deeds::roots_files_through_capabilities)),
];

/// Set where the namespaces are.
const INSIDE: &str = "UNHITCH_HOSTILE_INSIDE";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "attack") {
        return match attacker::play(&words[1..]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("attacker {}: {error}", words[1]);
                ExitCode::FAILURE
            }
        };
    }
    if let Some(reason) = unfit() {
        println!("SKIPPED hostile: {reason}\ntest result: ok. {} passed; 0 failed; 0 ignored", 1);
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(INSIDE).is_none() {
        let mut again = Command::new("unshare");
        // The link leads to the real name of this program.
        let this = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        again
            .args(["--mount", "--propagation", "private", "--"])
            .arg(this)
            .args(words)
            .env(INSIDE, "1");
        eprintln!("unshare cannot be run: {}", again.exec());
        return ExitCode::FAILURE;
    }
    // Ignore cargo's options for its own harness.
    let wanted: Vec<String> = words.into_iter().filter(|word| !word.starts_with('-')).collect();
    match defend(&wanted) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("test hostile ... FAILED: {error:?}");
            ExitCode::FAILURE
        }
    }
}

fn unfit() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root, to be attacked by somebody else");
    }
    let traced = Path::new("/sys/kernel/tracing/events/sched").exists();
    (!traced).then_some("no tracefs")
}

/// Runs all attacks, or those whose name contains one of `wanted`; true if all were withstood.
fn defend(wanted: &[String]) -> Attempt<bool> {
    let programs = Programs::read()?;
    for folder in ["/tmp", "/run", "/var/lib"] {
        rustix::mount::mount(
            "tmpfs",
            folder,
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            c"mode=1777",
        )?;
    }
    let folder = tempfile::tempdir_in("/run")?;
    let home = folder.path().join("programs");
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    programs.install(&home)?;
    let mut without = peace(&home)?;
    println!("{:<50} {:>8} {:>8} {:>6}  result", "attack by uid 4711", "without", "with", "MiB");
    debug_assert_eq!(USER, 4711);
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, way) in ATTACKS
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|word| name.contains(word)))
    {
        let (costs, result) = stand(&home, way, &mut without);
        let verdict = match &result {
            Ok(()) => "ok".to_owned(),
            Err(Miss::Skipped(why)) => format!(
                "SKIPPED hostile::{}: {why}",
                name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
            ),
            Err(Miss::Failed(why) | Miss::Slow(why)) => format!("FAILED: {why}"),
        };
        println!(
            "{name:<50} {:>7.2}s {:>7.2}s {:>6}  {verdict}",
            costs.without.as_secs_f64(),
            costs.with.as_secs_f64(),
            costs.mebibytes
        );
        match result {
            Ok(()) => passed += 1,
            Err(Miss::Skipped(_)) => skipped += 1,
            Err(_) => failed += 1,
        }
    }
    // This is the last line of the standard harness, which tools/test counts; a skipped test counts
    // as passed there.
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {word}. {} passed; {failed} failed; 0 ignored", passed + skipped);
    Ok(failed == 0)
}

/// Runs one attack; repeats it if it only cost time, which may be chance on a busy machine.
fn stand(home: &Path, way: &Way, without: &mut Costs) -> (Costs, Attempt<()>) {
    let mut costs = Costs::default();
    for turn in 1.. {
        let result = attempt(home, way, without, &mut costs);
        match result {
            Err(Miss::Slow(_)) if turn < TRIES => {
                if let Ok(again) = peace(home) {
                    *without = again;
                }
            }
            result => return (costs, result),
        }
    }
    unreachable!("the last turn returns")
}

fn attempt(home: &Path, way: &Way, without: &Costs, costs: &mut Costs) -> Attempt<()> {
    let stage = Stage::new(home)?;
    match way {
        Besiege(begin) => {
            *costs = Costs { without: without.with, ..Costs::default() };
            besiege(&stage, *begin, costs)?;
        }
        Deed(deed) => *costs = deed(&stage)?,
    }
    if costs.mebibytes > MEBIBYTES {
        return fail(format!("more than {MEBIBYTES} MiB of memory"));
    }
    let delay = costs.with.saturating_sub(costs.without);
    if delay > DELAY {
        Err(Miss::Slow(format!("{:.1} s slower", delay.as_secs_f64())))
    } else {
        Ok(())
    }
}

/// Measures the costs without an attack. Leaves a trace for attacks that need one.
fn peace(home: &Path) -> Attempt<Costs> {
    let stage = Stage::new(home)?;
    let mut costs = Costs::default();
    besiege(&stage, sieges::peace, &mut costs)?;
    let trace = stage.trace.to_str().expect("text");
    if !stage.trace.exists() {
        stage.run_program(&["record", "--for", "300ms", "-o", trace])?.succeeded("record")?;
        std::fs::set_permissions(trace, std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    }
    Ok(costs)
}

/// Does everything that root does during an attack; adds the slowest save and the peak memory to
/// `costs`.
fn besiege(stage: &Stage, begin: fn(&Stage) -> Attempt<Siege>, costs: &mut Costs) -> Attempt<()> {
    /// How long the attackers run before root starts.
    const BEFORE: Duration = Duration::from_millis(300);
    let mut watch = Watch::start(stage)?;
    let siege = begin(stage)?;
    let guard = Guard::new(&siege)?;
    std::thread::sleep(BEFORE);
    let trace = watch.save(costs)?;
    stage.check_trace(&trace)?;
    let recorded = watch.traces().join("recorded.hitch");
    let record = stage
        .run_program(&["record", "--for", "300ms", "-o", recorded.to_str().expect("text")])?
        .succeeded("record")?;
    costs.add(&record);
    stage.check_trace(&recorded)?;
    let attacker = siege.attackers.last().expect("somebody attacks").pid().to_string();
    let trace = trace.to_str().expect("text");
    for words in
        [&["info", trace][..], &["why", trace], &["scan", &attacker], &["threads", &attacker]]
    {
        costs.mebibytes = costs.mebibytes.max(stage.run_program(words)?.mebibytes);
    }
    let again = watch.save(costs)?;
    stage.check_trace(&again)?;
    watch.end()?;
    guard.untouched()
}

/// Watches for forbidden opens and reads.
struct Guard(rustix::fd::OwnedFd);

impl Guard {
    fn new(siege: &Siege) -> Attempt<Self> {
        use inotify::WatchFlags;
        let guard = inotify::init(inotify::CreateFlags::NONBLOCK)?;
        for path in &siege.unread {
            inotify::add_watch(&guard, path, WatchFlags::ACCESS)?;
        }
        for path in &siege.unopened {
            inotify::add_watch(&guard, path, WatchFlags::OPEN | WatchFlags::ACCESS)?;
        }
        Ok(Self(guard))
    }

    fn untouched(self) -> Attempt<()> {
        let mut events = [0; 4096];
        match rustix::io::read(&self.0, &mut events) {
            Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => fail("a file of root's, or of the kernel's, was opened or read"),
        }
    }
}
