//! The one registry of commands and options: help, manual page and shell completions are made from
//! it.

use crate::Done;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args as ClapArgs, CommandFactory, Parser, Subcommand};
#[cfg(target_os = "linux")]
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use unhitch_analysis::{StackKind, table};
use unhitch_model::is_control;

/// Tells why a machine that is mostly idle still hangs.
///
/// Records context switches, wake-ups with both stacks, and CPU samples into circular buffers;
/// follows every wait of a hang to the thread that caused it; and says so in words, with the
/// evidence.
#[derive(Parser, Debug)]
#[command(
    version,
    propagate_version = true,
    max_term_width = 120,
    after_help = "Exit codes: 0 done; 1 error; 2 wrong usage; 3 `why` found no stall; 4 a lab program did not hang."
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Record once, from now: for a time, while a command runs, or until Ctrl-C
    #[cfg(target_os = "linux")]
    Record(RecordArgs),
    /// Record all the time into circular buffers; save when asked to (`unhitch save`, or SIGUSR2)
    #[cfg(target_os = "linux")]
    Watch(WatchArgs),
    /// Save what the running `unhitch watch` holds, and print the file's name
    #[cfg(target_os = "linux")]
    Save(SaveArgs),
    /// Say in words what hung in a trace and who caused it
    Why(WhyArgs),
    /// List the waits in a trace that no rule classifies, longest first: what to add to waits.toml
    Waits(WaitsArgs),
    /// Say in which functions the CPU samples are, or on which instructions of one
    Hot(HotArgs),
    /// Say what a trace holds: span, CPUs, events by kind, losses, warnings
    Info(InfoArgs),
    /// List switches, waits, wakes, samples, events, stalls, lifetimes, threads or cpus; group,
    /// sum, filter and sort them
    Table(TableArgs),
    /// Say which functions lead to a function, on the stacks of waits, wake-ups or samples; without
    /// it, rank all functions
    Callers(ButterflyArgs),
    /// Say which functions a function leads to, on the stacks of waits, wake-ups or samples;
    /// without it, rank all functions
    Callees(ButterflyArgs),
    /// Show a trace, or a folder of traces, as a page in the browser of this machine
    View(ViewArgs),
    /// Write one self-contained HTML file with the answers, pictures and main tables of a trace,
    /// for a bug report
    Report(ReportArgs),
    /// Look at processes' address spaces without stalling them: what holds mappings, memory and
    /// page tables
    #[cfg(target_os = "linux")]
    Scan(ScanArgs),
    /// List threads with name, state, CPU time and what they wait in; those that nobody named are
    /// flagged
    #[cfg(target_os = "linux")]
    Threads(ThreadsArgs),
    /// Make a hang on purpose (with --record, record it and answer), or measure what hangs are made
    /// of
    #[cfg(target_os = "linux")]
    Lab(LabArgs),
    /// Print the manual page, or a shell's completions
    Manual(ManualArgs),
    /// Name the frames of traces that come by standard input (the recorder starts it, without
    /// rights)
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    NameFrames,
}

#[cfg(target_os = "linux")]
#[derive(ClapArgs, Clone, Debug)]
pub struct RecorderArgs {
    /// Length of each CPU's ring, e.g. 16M; rounded up to a power of two
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_size)]
    pub buffer: usize,
    /// CPU samples per second and CPU; 0 for none
    #[arg(long, value_name = "HZ", default_value_t = 199)]
    pub rate: u32,
    /// Record kernel stacks only
    #[arg(long)]
    pub no_user_stacks: bool,
    /// Record only switches and wake-ups in which this process takes part
    #[arg(long, value_name = "PID")]
    pub only_pid: Option<u32>,
    /// Let this group, by name or number, read the traces; without it only the one who records may
    #[arg(long, value_name = "GROUP", value_parser = parse_group)]
    pub group: Option<u32>,
}

#[cfg(target_os = "linux")]
#[derive(ClapArgs, Debug)]
pub struct RecordArgs {
    /// The trace to write; by default a new file in this folder, named by the time
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Stop after this time, e.g. 10s or 500ms
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, conflicts_with = "run")]
    pub duration: Option<Duration>,
    #[command(flatten)]
    pub recorder: RecorderArgs,
    /// Run this command and record until it ends
    #[arg(last = true, value_name = "CMD")]
    pub run: Vec<OsString>,
}

#[cfg(target_os = "linux")]
#[derive(ClapArgs, Debug)]
pub struct WatchArgs {
    /// The folder to save into
    #[arg(short, long, value_name = "FOLDER", default_value = ".")]
    pub output: PathBuf,
    #[command(flatten)]
    pub recorder: RecorderArgs,
}

#[cfg(target_os = "linux")]
#[derive(ClapArgs, Debug)]
pub struct SaveArgs {
    /// What you saw, in your words; kept with the trace
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

const OF_WINDOWS: &str = "Windows traces";

/// The trace that a command reads.
#[derive(ClapArgs, Debug)]
pub struct TraceArgs {
    /// A trace: NAME.hitch, a perf.data file, or NAME.etl
    #[arg(value_name = "TRACE")]
    pub path: PathBuf,
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// What a trace needs besides its file.
#[derive(ClapArgs, Default, Debug)]
pub struct ReadingArgs {
    /// Another session that was recorded with the trace and not merged, e.g. `kernel.etl --with
    /// user.etl`; may be repeated
    #[arg(long, value_name = "FILE", help_heading = OF_WINDOWS)]
    pub with: Vec<PathBuf>,
    /// Where PDBs are: folders, symbol stores and servers, in the words of _NT_SYMBOL_PATH, which
    /// it replaces
    #[arg(long, value_name = "PATH", help_heading = OF_WINDOWS)]
    pub symbols: Option<String>,
}

/// Which part of a trace a command looks at.
#[derive(ClapArgs, Clone, Copy, Default, Debug)]
pub struct WindowArgs {
    /// Only the time from here, counted from the trace's origin (`unhitch info` names it), as all
    /// times are shown, e.g. 1.5s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub from: Option<Duration>,
    /// … to here
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub to: Option<Duration>,
}

impl WindowArgs {
    /// True when neither end is given.
    pub fn is_everything(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
}

/// What a wait is called.
#[derive(ClapArgs, Default, Debug)]
pub struct RulesArgs {
    /// Wait-class rules to try before the built-in ones [default: unhitch/waits.toml in the user's
    /// configuration folder]
    #[arg(long = "rules", value_name = "FILE")]
    pub file: Option<PathBuf>,
}

#[derive(ClapArgs, Debug)]
pub struct WhyArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Only this thread: a thread's or process's name, a pid or a tid; with --from or --to, just
    /// that part of its time is explained
    #[arg(long, value_name = "NAME|PID|TID")]
    pub victim: Option<String>,
    #[command(flatten)]
    pub window: WindowArgs,
    /// How many stalls to tell in full [default: 1; with --json 10]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Draw the worst stall as a timeline into this SVG file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    #[command(flatten)]
    pub rules: RulesArgs,
}

#[derive(ClapArgs, Debug)]
pub struct WaitsArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// How many stacks to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    #[command(flatten)]
    pub rules: RulesArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs, Debug)]
pub struct HotArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Show this function's instructions: its name, the last part of it, or file+0xOFFSET
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
    /// Only samples of this thread: a thread's or process's name, a pid or a tid
    #[arg(long, value_name = "NAME|PID|TID")]
    pub victim: Option<String>,
    #[command(flatten)]
    pub window: WindowArgs,
    /// The recorded kernel's vmlinux [default: the running kernel's memory, if that is the one
    /// recorded]
    #[arg(long, value_name = "VMLINUX")]
    pub kernel_image: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs, Debug)]
pub struct InfoArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs, Debug)]
pub struct TableArgs {
    /// A trace: NAME.hitch, a perf.data file, or NAME.etl
    #[arg(required_unless_present = "columns")]
    pub trace: Option<PathBuf>,
    /// Which table
    #[arg(required_unless_present = "columns", value_parser = table_parser())]
    pub table: Option<table::Name>,
    /// List the columns with their meaning and other names, of all tables or the one named
    #[arg(long)]
    pub columns: bool,
    /// Group by these columns, separated by commas; `none` for single rows [default: single rows;
    /// waits by reason and wait stack]
    #[arg(long, value_name = "COL,…")]
    pub by: Option<String>,
    /// What to show: columns or `all`; of groups `count`, `sum:COL`, `avg:COL`, `min:COL`,
    /// `max:COL`
    #[arg(long, value_name = "COL,…")]
    pub show: Option<String>,
    /// Only these rows, e.g. 'waited > 5ms and (process = chrome or wait stack ~ mutex) and not
    /// reason = idle'
    #[arg(long = "where", value_name = "EXPR")]
    pub filter: Option<String>,
    /// Sort by this column or aggregate, e.g. max:waited:desc
    #[arg(long, value_name = "COL[:asc|desc]")]
    pub sort: Option<String>,
    /// How many rows to show [default: 20; with --csv or --json all]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    #[command(flatten)]
    pub window: WindowArgs,
    /// Cut nothing: whole stacks and texts, however long the lines become. Without it a table in a
    /// terminal is as wide as that (COLUMNS, else the terminal's own width); into a file or a pipe
    /// texts are whole, and stacks in brief
    #[arg(long, conflicts_with_all = ["csv", "json"])]
    pub wide: bool,
    /// Print CSV: whole stacks, nanoseconds
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print JSON: whole stacks, nanoseconds
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub reading: ReadingArgs,
    #[command(flatten)]
    pub rules: RulesArgs,
}

#[derive(ClapArgs, Debug)]
pub struct ButterflyArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// The function (or, by --by, module or file): its whole name, else any part of it; without it,
    /// all are ranked
    pub function: Option<String>,
    /// Which stacks: wait (time slept), wake (the sleeps that the wake-ups ended), or sample (time
    /// on a CPU)
    #[arg(long, value_name = "wait|wake|sample", default_value = "wait", value_parser = parse_of)]
    pub of: StackKind,
    /// What a line is: function, module, or file
    #[arg(long, value_name = "function|module|file", default_value = "function", value_parser = parse_level)]
    pub by: table::GroupBy,
    /// Only these waits, wakes or samples: an expression over the columns of that table, as in
    /// `unhitch table`
    #[arg(long = "where", value_name = "EXPR")]
    pub filter: Option<String>,
    /// How many lines to show [default: 40 of a tree, 20 of the ranking]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    #[command(flatten)]
    pub window: WindowArgs,
    /// Print JSON: the whole tree, or the whole ranking
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub rules: RulesArgs,
}

#[derive(ClapArgs, Debug)]
pub struct ViewArgs {
    /// A trace, or a folder: its traces are listed, more can be dropped in
    #[arg(value_name = "TRACE|DIR", default_value = ".")]
    pub path: PathBuf,
    /// The port on 127.0.0.1 [default: any that is free]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Open the page in the browser, where there is a display
    #[arg(long)]
    pub open: bool,
    #[command(flatten)]
    pub rules: RulesArgs,
    #[command(flatten)]
    pub reading: ReadingArgs,
}

#[derive(ClapArgs, Debug)]
pub struct ReportArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// The file to write [default: the trace's name with .html]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub rules: RulesArgs,
}

#[cfg(target_os = "linux")]
#[derive(ClapArgs, Debug)]
pub struct ScanArgs {
    /// Which processes: pids, processes' names, or programs' file names
    #[arg(value_name = "PID|NAME", required_unless_present = "all", conflicts_with = "all")]
    pub who: Vec<String>,
    /// All processes that we may look at
    #[arg(long)]
    pub all: bool,
    /// Look at pages as well, in bounded pieces: what is resident, swapped, huge; which page tables
    /// are empty
    #[arg(long)]
    pub pages: bool,
    /// Look at pages even at idle priority, which can freeze the target
    #[arg(long, requires = "pages")]
    pub force: bool,
    /// Scan again and again, this far apart, and say what grew per second; until Ctrl-C or until
    /// all have ended
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub every: Option<Duration>,
    /// With --every: stop after so many scans
    #[arg(long, value_name = "N", requires = "every", value_parser = clap::value_parser!(u64).range(1..))]
    pub times: Option<u64>,
    /// Print JSON; with --every a line for each scan
    #[arg(long)]
    pub json: bool,
    /// Draw the address space on a logarithmic scale into this SVG file; several processes into a
    /// file each, FILE with -PID before the ending
    #[arg(long, value_name = "FILE", conflicts_with = "every")]
    pub svg: Option<PathBuf>,
}

#[cfg(target_os = "linux")]
#[derive(ClapArgs, Debug)]
pub struct ThreadsArgs {
    /// Which processes: a pid, a process's name, or a program's file name; without it, all but the
    /// kernel's threads
    #[arg(value_name = "PID|NAME")]
    pub who: Option<String>,
    /// Print JSON: kernel stacks as well, where they may be read
    #[arg(long)]
    pub json: bool,
}

#[cfg(target_os = "linux")]
#[derive(ClapArgs, Debug)]
pub struct LabArgs {
    /// The program or tool; without it, a list of all
    pub name: Option<String>,
    /// Record it and say why it hung
    #[arg(long)]
    pub record: bool,
    /// The trace to write, with --record; by default a new file in this folder
    #[arg(short, long, value_name = "FILE", requires = "record")]
    pub output: Option<PathBuf>,
    /// Length of the run in seconds
    #[arg(long, value_name = "S", default_value_t = unhitch_lab::Options::default().seconds)]
    pub seconds: f64,
    /// Print the answer (with --record) or the figures (of `fairness`) as JSON
    #[arg(long)]
    pub json: bool,
    /// Of `long-hold`: how it looks for free blocks, on a full volume
    #[arg(long, value_name = "WAY", value_parser = unhitch_lab::search::Way::ALL.map(unhitch_lab::search::Way::name))]
    pub search: Option<String>,
    /// Of `long-hold`: each search goes on where the last one ended
    #[arg(long)]
    pub resume: bool,
    /// Of `fairness`: a short measurement
    #[arg(long, conflicts_with = "record")]
    pub quick: bool,
    /// Of `fairness`: print the tables as Markdown
    #[arg(long, conflicts_with_all = ["record", "json"])]
    pub markdown: bool,
    /// Of `fairness`: draw the waits into this SVG file
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    pub svg: Option<PathBuf>,
    /// Write the outcome to this file (used by --record on the program that it starts)
    #[arg(long, hide = true)]
    pub outcome: Option<PathBuf>,
    #[command(flatten)]
    pub address_space: AddressSpaceArgs,
}

/// Options of the one lab program that does not hang.
#[cfg(target_os = "linux")]
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Options of `lab address-space`")]
pub struct AddressSpaceArgs {
    /// How its code lies: one-big, few-big, many-blocks, super-sparse, random, bitmap [default:
    /// few-big]
    #[arg(long, value_name = "LAYOUT", value_parser = parse_layout)]
    pub layout: Option<unhitch_lab::Layout>,
    /// The same as --layout bitmap: 2 TiB reserved, 24,866 pages of it committed for code that is
    /// gone but for 98 blocks
    #[arg(long, conflicts_with = "layout")]
    pub bitmap: bool,
    /// How many blocks, or pages of the bitmap
    #[arg(long, value_name = "N")]
    pub blocks: Option<usize>,
    /// How often it maps 4 KiB of code [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub period: Option<Duration>,
    /// Tell each mapping that takes longer [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub limit: Option<Duration>,
}

#[cfg(target_os = "linux")]
impl AddressSpaceArgs {
    /// Whether any is given.
    pub fn any(&self) -> bool {
        self.layout.is_some()
            || self.bitmap
            || self.blocks.is_some()
            || self.period.is_some()
            || self.limit.is_some()
    }
}

#[derive(ClapArgs, Debug)]
pub struct ManualArgs {
    /// Print completions for this shell instead
    #[arg(long, value_name = "SHELL")]
    pub completions: Option<clap_complete::Shell>,
}

/// Prints the manual page, or completions.
pub fn manual(args: &ManualArgs) -> anyhow::Result<Done> {
    let mut command = Args::command();
    let mut out = Vec::new();
    match args.completions {
        Some(shell) => clap_complete::generate(shell, &mut command, "unhitch", &mut out),
        None => {
            command.build();
            clap_mangen::Man::new(command.clone()).render(&mut out)?;
            for sub in command
                .get_subcommands()
                .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
            {
                clap_mangen::Man::new(sub.clone()).render(&mut out)?;
            }
        }
    }
    crate::terminal::print_as_it_is(&String::from_utf8_lossy(&out))?;
    Ok(Done::Yes)
}

/// What the user typed; ends the program where that is help, or wrong.
pub fn parse() -> Args {
    Args::try_parse().unwrap_or_else(|error| exit(&error))
}

/// Ends the program as clap does for what it checks itself.
pub fn wrong_usage(command: &str, error: &dyn std::error::Error) -> ! {
    let mut root = Args::command();
    root.build();
    let sub = root.find_subcommand_mut(command).map(std::mem::take);
    exit(&sub.unwrap_or(root).error(ErrorKind::ValueValidation, error))
}

/// Prints what clap has to say. A word that it repeats may be a file's name, which a shell put
/// there for a `*`.
fn exit(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    if text.chars().any(|c| c != '\n' && is_control(c)) {
        crate::terminal::complain(text.trim_end());
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// The tables of the registry; help lists each with what a row of it is.
fn table_parser() -> impl TypedValueParser<Value = table::Name> {
    let tables = table::TABLES.iter().map(|table| PossibleValue::new(table.word).help(table.doc));
    PossibleValuesParser::new(tables)
        .try_map(|word| table::Name::of_word(&word).ok_or("no such table"))
}

fn parse_of(text: &str) -> Result<StackKind, String> {
    StackKind::of_word(text).ok_or_else(|| "write wait, wake or sample".to_owned())
}

fn parse_level(text: &str) -> Result<table::GroupBy, String> {
    let levels = [table::GroupBy::Function, table::GroupBy::Module, table::GroupBy::File];
    levels
        .into_iter()
        .find(|level| level.word() == text)
        .ok_or_else(|| "write function, module or file".to_owned())
}

/// A group's number, as it is, or by its name in `/etc/group`.
#[cfg(target_os = "linux")]
fn parse_group(text: &str) -> Result<u32, String> {
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let named = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == text).then(|| fields.nth(1)?.parse().ok())?
    });
    let group: u32 = named
        .or_else(|| text.parse().ok())
        .ok_or("no such group in /etc/group; a number will do")?;
    let ours = rustix::process::getgroups().map_err(|error| error.to_string())?;
    let is_ours = rustix::process::getegid().as_raw() == group
        || ours.iter().any(|ours| ours.as_raw() == group);
    // What cannot be given to the group at a save should not be found out at a save.
    if is_ours || rustix::process::geteuid().is_root() {
        Ok(group)
    } else {
        Err("you are not in this group".to_owned())
    }
}

#[cfg(target_os = "linux")]
fn parse_layout(text: &str) -> Result<unhitch_lab::Layout, String> {
    let words = unhitch_lab::LAYOUTS.map(|(word, _)| word).join(", ");
    let found = unhitch_lab::LAYOUTS.iter().find(|(word, _)| *word == text);
    found.map(|(_, layout)| *layout).ok_or_else(|| format!("no such layout; there are {words}"))
}

/// `10s`, `500ms`, `1.5` (seconds).
fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, scale) = match text {
        _ if text.ends_with("ms") => (&text[..text.len() - 2], 1e-3),
        _ if text.ends_with("us") => (&text[..text.len() - 2], 1e-6),
        _ if text.ends_with('s') => (&text[..text.len() - 1], 1.0),
        _ if text.ends_with('m') => (&text[..text.len() - 1], 60.0),
        _ => (text, 1.0),
    };
    let seconds = number
        .trim()
        .parse::<f64>()
        .map_err(|_| format!("not a time: {text:?}; write it as 10s, 500ms or 1.5"))?;
    Duration::try_from_secs_f64(seconds * scale).map_err(|_| format!("not a time: {text:?}"))
}

/// `16M`, `512K`, `1G`, or bytes.
#[cfg(target_os = "linux")]
fn parse_size(text: &str) -> Result<usize, String> {
    let upper = text.to_ascii_uppercase();
    let upper = upper.trim_end_matches("IB").trim_end_matches('B');
    let (number, shift) = match upper.chars().last() {
        Some('K') => (&upper[..upper.len() - 1], 10),
        Some('M') => (&upper[..upper.len() - 1], 20),
        Some('G') => (&upper[..upper.len() - 1], 30),
        _ => (upper, 0),
    };
    let count = number
        .parse::<usize>()
        .map_err(|_| format!("not a size: {text:?}; write it as 16M or 512K"))?;
    let bytes = count.checked_mul(1 << shift).filter(|bytes| (64 << 10..=4 << 30).contains(bytes));
    bytes.ok_or_else(|| format!("{text} is out of range: a ring has 64K to 4G"))
}

#[cfg(target_os = "linux")]
impl LabArgs {
    /// What the program is told.
    pub fn options(&self) -> unhitch_lab::Options {
        let search = self.search.as_deref().and_then(unhitch_lab::search::Way::named);
        unhitch_lab::Options { seconds: self.seconds, search, resume: self.resume }
    }

    /// The same options on the command line of the child that runs the program `name`, which writes
    /// its outcome to a file.
    pub fn for_child(&self, name: &str, outcome: &std::path::Path) -> Vec<OsString> {
        let mut words: Vec<OsString> =
            vec!["lab".into(), name.into(), "--seconds".into(), self.seconds.to_string().into()];
        words.extend(self.search.iter().flat_map(|way| ["--search".into(), way.into()]));
        words.extend(self.resume.then(|| "--resume".into()));
        words.extend(["--outcome".into(), outcome.into()]);
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn help_lists_every_table() {
        let mut command = Args::command();
        command.build();
        let about = command.find_subcommand("table").unwrap().get_about().unwrap().to_string();
        let help = command.find_subcommand_mut("table").unwrap().render_long_help().to_string();
        for table in table::TABLES {
            assert!(about.contains(table.word), "{} in {about}", table.word);
            let listed = help
                .lines()
                .any(|line| line.trim_start().starts_with(&format!("- {}:", table.word)));
            assert!(listed, "{} in {help}", table.word);
        }
    }

    #[test]
    fn times_and_sizes_are_read_as_people_write_them() {
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1500)));
        assert!(parse_duration("soon").is_err() && parse_duration("-1s").is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn sizes_are_bounded() {
        assert_eq!(parse_size("16M"), Ok(16 << 20));
        assert_eq!(parse_size("512KiB"), Ok(512 << 10));
        assert!(
            parse_size("1").is_err()
                && parse_size("99999999999999999999G").is_err()
                && parse_size("5G").is_err()
        );
    }
}
