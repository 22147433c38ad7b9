//! Options of `lab`.

use super::capture::Engine;
use super::values::parse_duration;
use clap::Args as ClapArgs;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[derive(ClapArgs, Debug)]
pub struct LabArgs {
    /// The lab program or tool to run; if none is given, list all of them
    pub name: Option<String>,
    /// Record the program and explain why it hung
    #[arg(long)]
    pub record: bool,
    /// With --record: the trace to write [default: a new file in the current folder]
    #[arg(short, long, value_name = "FILE", requires = "record")]
    pub output: Option<PathBuf>,
    /// With --record: what records: BPF programs in the kernel, or performance events
    #[arg(long, value_enum, default_value_t, requires = "record")]
    pub engine: Engine,
    /// How long to run, in seconds
    #[arg(long, value_name = "S", default_value_t = unhitch_lab::Options::default().seconds)]
    pub seconds: f64,
    /// Print JSON: the explanation (with --record), or the figures of `fairness`
    #[arg(long)]
    pub json: bool,
    /// For `long-hold`: fill the simulated volume, and search its bitmap for free blocks in this
    /// way
    #[arg(long, value_name = "WAY", value_parser = unhitch_lab::search::Way::ALL.map(unhitch_lab::search::Way::name))]
    pub search: Option<String>,
    /// For `long-hold`: start each search where the last one ended
    #[arg(long)]
    pub resume: bool,
    /// For `fairness`: take a short measurement
    #[arg(long, conflicts_with = "record")]
    pub quick: bool,
    /// For `fairness`: print the tables as Markdown
    #[arg(long, conflicts_with_all = ["record", "json"])]
    pub markdown: bool,
    /// For `fairness`: write a chart of the waits to this SVG file
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    pub svg: Option<PathBuf>,
    /// Write the outcome to this file; --record passes this to the program that it starts
    #[arg(long, hide = true)]
    pub outcome: Option<PathBuf>,
    #[command(flatten)]
    pub address_space: AddressSpaceArgs,
}

/// Options of `address-space`, a tool that does not hang.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Options for `lab address-space`")]
pub struct AddressSpaceArgs {
    /// Layout of the code: one-big, few-big, many-blocks, super-sparse, random or bitmap [default:
    /// few-big]
    #[arg(long, value_name = "LAYOUT", value_parser = parse_layout)]
    pub layout: Option<unhitch_lab::Layout>,
    /// Same as --layout bitmap: reserve 2 TiB for a bitmap, of which 24,866 pages (see
    /// --blocks) stay committed although all but 98 blocks of the code are gone
    #[arg(long, conflicts_with = "layout")]
    pub bitmap: bool,
    /// Number of blocks; with the layout bitmap, number of pages to commit in the bitmap [default:
    /// depends on the layout]
    #[arg(long, value_name = "N")]
    pub blocks: Option<usize>,
    /// Interval at which to map 4 KiB of code [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub period: Option<Duration>,
    /// Report each mapping that takes longer than this [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub limit: Option<Duration>,
}

impl AddressSpaceArgs {
    /// True when any of them is given.
    pub fn any(&self) -> bool {
        self.layout.is_some()
            || self.bitmap
            || self.blocks.is_some()
            || self.period.is_some()
            || self.limit.is_some()
    }
}

fn parse_layout(text: &str) -> Result<unhitch_lab::Layout, String> {
    let words = unhitch_lab::LAYOUTS.map(|(word, _)| word).join(", ");
    let found = unhitch_lab::LAYOUTS.iter().find(|(word, _)| *word == text);
    found.map(|(_, layout)| *layout).ok_or_else(|| format!("no such layout; choose from {words}"))
}

impl LabArgs {
    /// The options of the lab program.
    pub fn options(&self) -> unhitch_lab::Options {
        let search = self.search.as_deref().and_then(unhitch_lab::search::Way::named);
        unhitch_lab::Options { seconds: self.seconds, search, resume: self.resume }
    }

    /// The command line of the child that runs program `name` with the same options and writes its
    /// outcome to a file.
    pub fn for_child(&self, name: &str, outcome: &std::path::Path) -> Vec<OsString> {
        let mut words: Vec<OsString> =
            vec!["lab".into(), name.into(), "--seconds".into(), self.seconds.to_string().into()];
        words.extend(self.search.iter().flat_map(|way| ["--search".into(), way.into()]));
        words.extend(self.resume.then(|| "--resume".into()));
        words.extend(["--outcome".into(), outcome.into()]);
        words
    }
}
