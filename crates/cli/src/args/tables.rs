//! Options of `table`, `callers` and `callees`.

use super::{ReadingArgs, RulesArgs, TraceArgs, WindowArgs};
use clap::Args as ClapArgs;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::path::PathBuf;
use unhitch_analysis::{StackKind, table};

#[derive(ClapArgs, Debug)]
pub struct TableArgs {
    /// The trace to read: NAME.hitch, a perf.data file, NAME.etl; or one of Perfetto, trace-cmd
    /// (trace.dat), perf script (text) or LTTng (the folder)
    #[arg(required_unless_present = "columns")]
    pub trace: Option<PathBuf>,
    /// The table to print
    #[arg(required_unless_present = "columns", value_parser = table_parser())]
    pub table: Option<table::Name>,
    /// List the columns with their meanings and aliases: those of TABLE if given, else of all
    /// tables
    #[arg(long)]
    pub columns: bool,
    /// Group by these columns, separated by commas; `none` lists each row by itself [default: none;
    /// in the table `waits`: reason,wait stack]
    #[arg(long, value_name = "COL,…")]
    pub by: Option<String>,
    /// Columns to show, or `all`; for groups, also the aggregates `count`, `sum:COL`, `avg:COL`,
    /// `min:COL` and `max:COL`
    #[arg(long, value_name = "COL,…")]
    pub show: Option<String>,
    /// Show only matching rows, e.g. 'waited > 5ms and (process = chrome or wait stack ~ mutex) and
    /// not reason = idle'
    #[arg(long = "where", value_name = "EXPR")]
    pub filter: Option<String>,
    /// Sort by this column or aggregate, e.g. max:waited:desc
    #[arg(long, value_name = "COL[:asc|desc]")]
    pub sort: Option<String>,
    /// How many rows to show [default: 20; with --csv or --json: all]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    #[command(flatten)]
    pub window: WindowArgs,
    /// Print whole stacks and texts, however long the lines. By default, a table is cut to
    /// COLUMNS characters or, if that variable is not set, to the width of the terminal; in a file
    /// or pipe without COLUMNS, texts are whole and stacks are abbreviated
    #[arg(long, conflicts_with_all = ["csv", "json"])]
    pub wide: bool,
    /// Print CSV, with whole stacks and times in nanoseconds
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print JSON, with whole stacks and times in nanoseconds
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
    /// The function (with --by, the module or file): its full name or any part of that name; if
    /// none is given, all are ranked
    pub function: Option<String>,
    /// Which stacks to use, and what to sum up: wait (the time waited), wake (the time of the waits
    /// that the wake-ups ended) or sample (CPU time)
    #[arg(long, value_name = "wait|wake|sample", default_value = "wait", value_parser = parse_of)]
    pub of: StackKind,
    /// What each line stands for: a function, module or file
    #[arg(long, value_name = "function|module|file", default_value = "function", value_parser = parse_level)]
    pub by: table::GroupBy,
    /// Use only the waits, wakes or samples (see --of) that match this expression over the columns of
    /// their table, as in `unhitch table --where`
    #[arg(long = "where", value_name = "EXPR")]
    pub filter: Option<String>,
    /// How many lines to show [default: 40 for a tree, 20 for the ranking]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    #[command(flatten)]
    pub window: WindowArgs,
    /// Print JSON, with the whole tree or ranking
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub rules: RulesArgs,
}

/// Accepts the tables of the registry; the help lists each with what its rows are.
fn table_parser() -> impl TypedValueParser<Value = table::Name> {
    let tables = table::TABLES.iter().map(|table| PossibleValue::new(table.word).help(table.doc));
    PossibleValuesParser::new(tables)
        .try_map(|word| table::Name::of_word(&word).ok_or("no such table"))
}

fn parse_of(text: &str) -> Result<StackKind, String> {
    [StackKind::Wait, StackKind::Wake, StackKind::Sample]
        .into_iter()
        .find(|of| of.word() == text)
        .ok_or_else(|| "write wait, wake or sample".to_owned())
}

fn parse_level(text: &str) -> Result<table::GroupBy, String> {
    let levels = [table::GroupBy::Function, table::GroupBy::Module, table::GroupBy::File];
    levels
        .into_iter()
        .find(|level| level.word() == text)
        .ok_or_else(|| "write function, module or file".to_owned())
}
