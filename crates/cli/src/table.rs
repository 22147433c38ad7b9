//! `unhitch table`: the events of a trace as tables; `unhitch callers` and `callees`: the functions
//! above and below one.

use crate::args::{ButterflyArgs, TableArgs, wrong_usage};
use crate::done::Done;
use crate::load::For;
use crate::terminal::{
    columns, note_warnings, print, print_answer, print_json, print_json_answer, print_raw,
};
use crate::{load, selection};
use anyhow::bail;
use unhitch_analysis::Analysis;
use unhitch_analysis::table::{
    self, Butterfly, Direction, Fit, Query, Ranking, StackQuestion, Table, Words,
};
use unhitch_analysis::wording::recording;

/// Default maximum of rows: as many as fit on a screen.
const MAX_ROWS: usize = 20;
/// Default maximum of lines in a tree.
const MAX_TREE_LINES: usize = 40;

/// Prints a table, or the list of columns.
pub fn table(args: &TableArgs) -> anyhow::Result<Done> {
    if args.columns {
        // There may be no trace, and then the first argument is the table.
        let word = args
            .table
            .or_else(|| args.trace.as_ref().and_then(|word| table::Name::of_word(word.to_str()?)));
        print(&table::describe(word))?;
        return Ok(Done::Yes);
    }
    let (Some(name), Some(trace)) = (args.table, &args.trace) else {
        bail!("a trace and a table are required")
    };
    let words = Words {
        by: args.by.as_deref(),
        show: args.show.as_deref(),
        filter: args.filter.as_deref(),
        sort: args.sort.as_deref(),
    };
    let query = Query::new(name, words).unwrap_or_else(|error| wrong_usage("table", &error));
    let rules = load::rules(&args.rules)?;
    let trace = load::Reader::new(&args.reading).read_for(trace, For::of(args.json || args.csv))?;
    let analysis = Analysis::new(&trace, &rules);
    let window = selection::window(args.window, &trace, trace.extent())?;
    let top = args.top.unwrap_or(if args.csv || args.json { usize::MAX } else { MAX_ROWS });
    let table = Table::new(&analysis, &query, window, top);
    match (args.json, args.csv) {
        (true, _) => print_json(&table)?,
        (_, true) => {
            print_raw(&table.csv())?;
            note_warnings(&trace);
        }
        _ => print_answer(&table.fitted(Fit { width: columns(), whole: args.wide }), &trace)?,
    }
    Ok(Done::Yes)
}

/// Prints the callers or callees of a function, or ranks all functions.
pub fn butterfly(args: &ButterflyArgs, direction: Direction) -> anyhow::Result<Done> {
    let command = if direction == Direction::Callers { "callers" } else { "callees" };
    let query = Query::new(
        table::Name::of_stacks(args.of),
        Words { filter: args.filter.as_deref(), ..Words::default() },
    );
    let query = query.unwrap_or_else(|error| wrong_usage(command, &error));
    let rules = load::rules(&args.rules)?;
    let trace = load::trace(&args.trace, For::of(args.json))?;
    let analysis = Analysis::new(&trace, &rules);
    let window = selection::window(args.window, &trace, trace.extent())?;
    let question = StackQuestion { kind: args.of, query: &query, window, by: args.by };
    let needs = table::Name::of_stacks(args.of).needs();
    let lacking = needs.and_then(|what| recording::not_recorded(&trace, what, ""));
    match &args.function {
        None if lacking.is_some() && !args.json => {
            print_answer(&lacking.unwrap_or_default(), &trace)?
        }
        None => {
            let ranking = Ranking::new(&analysis, question);
            if args.json {
                print_json_answer(&ranking, &trace, needs)?
            } else {
                print_answer(&ranking.text(args.top.unwrap_or(MAX_ROWS)), &trace)?
            }
        }
        Some(function) => {
            let Some(tree) = Butterfly::new(&analysis, question, direction, function) else {
                if let Some(lacking) = lacking {
                    bail!("{}", lacking.trim_end());
                }
                bail!(
                    "no {} on these stacks is called {function:?}; run `unhitch {command}` without \
                     it to list them",
                    args.by.word()
                );
            };
            if args.json {
                print_json_answer(&tree, &trace, needs)?
            } else {
                print_answer(&tree.text(args.top.unwrap_or(MAX_TREE_LINES)), &trace)?
            }
        }
    }
    Ok(Done::Yes)
}
