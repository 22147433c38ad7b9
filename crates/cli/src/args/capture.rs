//! Options of the commands that record: `record`, `watch` and `save`.

use super::CheckArgs;
use super::service::SocketArgs;
use super::values::{parse_bytes, parse_duration, parse_size};
use clap::Args as ClapArgs;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[derive(ClapArgs, Clone, Debug)]
pub struct RecorderArgs {
    /// Size of each CPU's ring buffer, 256K to 1G, e.g. 16M; rounded up to a power of two [default:
    /// 16M, and at most 256M for all CPUs together; with BPF 16M for all]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub buffer: Option<usize>,
    /// CPU samples per second on each CPU; 0 turns sampling off
    #[arg(long, value_name = "HZ", default_value_t = 199)]
    pub rate: u32,
    /// Record kernel stacks only
    #[arg(long)]
    pub no_user_stacks: bool,
    /// Record only context switches and wake-ups that involve this process
    #[arg(long, value_name = "PID")]
    pub only_pid: Option<u32>,
    /// What records: BPF programs in the kernel, or performance events
    #[arg(long, value_enum, default_value_t)]
    pub engine: Engine,
    /// With --engine bpf: record a stack for each so much time that a thread is blocked
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = parse_duration)]
    pub min_wait: Duration,
    /// With --engine bpf: spend at most this share of one CPU on stacks, in percent; 0 for as much
    /// as it takes
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub stack_budget: f32,
    /// Let this group (name or number) read the traces; by default only the recording user can
    #[arg(long, value_name = "GROUP", value_parser = parse_group)]
    pub group: Option<u32>,
}

#[derive(clap::ValueEnum, Clone, Copy, Default, Debug)]
pub enum Engine {
    /// BPF where the kernel allows it, else performance events
    #[default]
    Auto,
    /// BPF: less overhead, and whole stacks without frame pointers
    Bpf,
    /// Performance events, on any kernel
    Perf,
}

#[cfg(target_os = "linux")]
impl From<Engine> for unhitch_record::EngineChoice {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Auto => Self::Auto,
            Engine::Perf => Self::Perf,
            Engine::Bpf => Self::Bpf,
        }
    }
}

#[derive(ClapArgs, Debug)]
pub struct RecordArgs {
    /// The trace to write [default: a new file in the current folder, named after the time]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Stop after this time, e.g. 10s or 500ms
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, conflicts_with = "run")]
    pub duration: Option<Duration>,
    /// Stop when the trace has about this size, e.g. 500M or 2G [default: when 5 % of the disk or
    /// 512M are free]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub max_size: Option<u64>,
    #[command(flatten)]
    pub recorder: RecorderArgs,
    #[command(flatten)]
    pub checks: CheckArgs,
    /// Also write the report of the trace to this file, as `unhitch report` does
    #[arg(long, value_name = "FILE", help_heading = "Checks")]
    pub report: Option<PathBuf>,
    /// Run this command, record until it exits, and exit with its code
    #[arg(last = true, value_name = "CMD")]
    pub run: Vec<OsString>,
}

#[derive(ClapArgs, Debug)]
pub struct WatchArgs {
    /// Folder to save traces into
    #[arg(short, long, value_name = "FOLDER", default_value = ".")]
    pub output: PathBuf,
    /// Take everything from this file, and read it again on SIGHUP. The service uses
    /// /etc/unhitch/watch.toml
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "on_stall", "when", "verdict", "RecorderArgs"])]
    pub config: Option<PathBuf>,
    /// Only check this configuration: a wrong line is named by its number
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub check: Option<PathBuf>,
    /// Save when an event loop of one of your programs stays away for so long, e.g. 200ms (needs
    /// BPF); root: of any user's
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub on_stall: Option<Duration>,
    /// Run this command every 5 s, and save when it succeeds
    #[arg(long, value_name = "CMD")]
    pub when: Option<String>,
    /// Judge each trace once it is saved, and store the verdict beside it
    #[arg(long)]
    pub verdict: bool,
    #[command(flatten)]
    pub recorder: RecorderArgs,
}

#[derive(ClapArgs, Debug)]
pub struct SaveArgs {
    /// What you saw, in your own words; stored with the trace
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Also explain what hung, as `unhitch why` does
    #[arg(long)]
    pub why: bool,
    /// Do not save now, but each time that a line of standard input contains this pattern (regular
    /// expression), e.g. of `journalctl -f -o cat`; within the limits of automatic saves
    #[arg(long, value_name = "REGEX", conflicts_with_all = ["why", "note"])]
    pub on_line: Option<String>,
    #[command(flatten)]
    pub recorder: SocketArgs,
}

/// Parses a group: its name in `/etc/group`, or its number.
fn parse_group(text: &str) -> Result<u32, String> {
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let named = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == text).then(|| fields.nth(1)?.parse().ok())?
    });
    let group: u32 = named
        .or_else(|| text.parse().ok())
        .ok_or("no such group in /etc/group; a group number works, too")?;
    let own_groups = rustix::process::getgroups().map_err(|error| error.to_string())?;
    let is_member = rustix::process::getegid().as_raw() == group
        || own_groups.iter().any(|own| own.as_raw() == group);
    // Check now: at the first save it would be too late to find that the file cannot be given to
    // the group.
    if is_member || rustix::process::geteuid().is_root() {
        Ok(group)
    } else {
        Err("you are not a member of this group".to_owned())
    }
}
