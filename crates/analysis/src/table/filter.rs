//! Filter expressions: `waited > 5ms and (process = chrome or wait stack ~ mutex) and not reason =
//! idle`.
//!
//! ```text
//! expression  =  both { "or" both }            both  =  one { "and" one }
//! one         =  "not" one  |  "(" expression ")"  |  COLUMN operator VALUE
//! operator    =  "="  "!="  "<"  "<="  ">"  ">="  "~" (contains)
//! ```
//!
//! A value with spaces or brackets is quoted. Durations and times have a unit (`5ms`, `1.2s`);
//! times count from the trace's origin, as `--from` does. A text may be written as it is, or as it
//! is shown, with its control characters escaped. *Why errors have an offset:* an expression is
//! typed into a shell by hand, and is seldom wrong at its start.

use super::cells::time;
use super::column::{Column, Kind, columns_of, find};
use super::rows::Row;
use super::source::Source;
use super::{Cell, NONE, Name};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use unhitch_model::units::read_duration;
use unhitch_model::{StackId, visible};

/// Maximum nesting of brackets and `not`s.
const MAX_DEPTH: usize = 64;

/// Minimum rows that are worth another core.
const MIN_ROWS_PER_CORE: usize = 1 << 14;

/// What is wrong with an expression, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("found {found} at offset {offset}, expected {expected}\n  {text}\n  {:>width$}", "^", width = text.get(..*offset).map_or(0, |before| before.chars().count()) + 1)]
pub struct FilterError {
    /// The expression.
    pub text: String,
    /// Where it is wrong, bytes from its start.
    pub offset: usize,
    /// What was found there.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

/// A filter expression for one table.
#[derive(Debug)]
pub struct Filter(Node);

#[derive(Debug)]
enum Node {
    /// All of them.
    And(Vec<Node>),
    /// At least one of them.
    Or(Vec<Node>),
    Not(Box<Node>),
    Test(&'static Column, Operator, Value),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
}

/// Longest first, so that `<=` is not read as `<`.
const OPERATORS: &[(&str, Operator)] = &[
    ("!=", Operator::Unequal),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
    ("~", Operator::Contains),
];

#[derive(Debug)]
enum Value {
    /// In lower case.
    Text(String),
    /// For a time: nanoseconds since the trace's origin.
    Number(Cell),
}

impl Filter {
    /// Parses an expression about the columns of `table`.
    ///
    /// # Errors
    /// When it is no expression, or names no column of `table`.
    pub fn parse(table: Name, text: &str) -> Result<Self, FilterError> {
        let mut parser = Parser { table, text, at: 0, depth: 0 };
        let node = parser.expression()?;
        parser.skip_spaces();
        if parser.at < text.len() {
            return Err(parser.error(parser.at, "`and`, `or`, or the end"));
        }
        Ok(Self(node))
    }

    /// Which rows pass.
    pub(super) fn select(&self, source: &Source<'_>) -> Vec<bool> {
        select(&self.0, source)
    }
}

fn select(node: &Node, source: &Source<'_>) -> Vec<bool> {
    let join = |nodes: &[Node], all: bool| {
        let mut joined = vec![all; source.rows.len()];
        for node in nodes {
            joined
                .iter_mut()
                .zip(select(node, source))
                .for_each(|(a, b)| *a = if all { *a && b } else { *a || b });
        }
        joined
    };
    match node {
        Node::And(nodes) => join(nodes, true),
        Node::Or(nodes) => join(nodes, false),
        Node::Not(inner) => {
            let mut passes = select(inner, source);
            passes.iter_mut().for_each(|pass| *pass = !*pass);
            passes
        }
        Node::Test(column, operator, value) => {
            // Compare each distinct text and stack once, not once per row.
            let remembered = matches!(column.kind, Kind::Text | Kind::Stack(_));
            let test = |cell: Cell| test(source, column.kind, cell, *operator, value);
            let pass = |known: &mut FxHashMap<Cell, bool>, row: &Row| {
                let cell = (column.cell)(source, row);
                if remembered {
                    *known.entry(cell).or_insert_with(|| test(cell))
                } else {
                    test(cell)
                }
            };
            source
                .rows
                .par_iter()
                .with_min_len(MIN_ROWS_PER_CORE)
                .map_init(FxHashMap::default, pass)
                .collect()
        }
    }
}

fn test(source: &Source<'_>, kind: Kind, cell: Cell, operator: Operator, value: &Value) -> bool {
    match (kind, value) {
        (Kind::Stack(stack_kind), Value::Text(wanted)) => {
            let Ok(stack) = u32::try_from(cell) else { return operator == Operator::Unequal };
            let any = source.frames(stack_kind, StackId(stack)).iter().any(|&frame| {
                source.analysis.trace.frame_names(frame).iter().any(|name| {
                    let name = visible(name).to_lowercase();
                    if operator == Operator::Contains {
                        name.contains(wanted)
                    } else {
                        name == *wanted
                    }
                })
            });
            any != (operator == Operator::Unequal)
        }
        (_, Value::Text(wanted)) => source.with_text(cell, |text| {
            let text = visible(text).to_lowercase();
            match operator {
                Operator::Contains => text.contains(wanted),
                Operator::Unequal => text != *wanted,
                _ => text == *wanted,
            }
        }),
        (_, Value::Number(_)) if cell == NONE => operator == Operator::Unequal,
        (kind, Value::Number(wanted)) => {
            let start = if kind == Kind::Time { time(source.analysis.trace.origin()) } else { 0 };
            let wanted = &start.saturating_add(*wanted);
            match operator {
                Operator::Equal | Operator::Contains => cell == *wanted,
                Operator::Unequal => cell != *wanted,
                Operator::Less => cell < *wanted,
                Operator::LessOrEqual => cell <= *wanted,
                Operator::Greater => cell > *wanted,
                Operator::GreaterOrEqual => cell >= *wanted,
            }
        }
    }
}

struct Parser<'t> {
    table: Name,
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// The error for text at `offset` that is not what is `expected`.
    fn error(&self, offset: usize, expected: impl Into<String>) -> FilterError {
        let word: String = self
            .text
            .get(offset..)
            .unwrap_or("")
            .chars()
            .take_while(|c| !c.is_whitespace())
            .take(40)
            .collect();
        let found = if word.is_empty() { "the end".to_owned() } else { format!("`{word}`") };
        FilterError { text: self.text.to_owned(), offset, found, expected: expected.into() }
    }

    /// Consumes `word` if it comes next, as a separate word.
    fn takes(&mut self, word: &str) -> bool {
        self.skip_spaces();
        let here =
            self.rest().get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        let ends = self.rest().get(word.len()..).is_some_and(|rest| {
            rest.chars().next().is_none_or(|c| c.is_whitespace() || "()".contains(c))
        });
        if here && ends {
            self.at += word.len();
        }
        here && ends
    }

    fn expression(&mut self) -> Result<Node, FilterError> {
        let mut nodes = vec![self.both()?];
        while self.takes("or") {
            nodes.push(self.both()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Or(nodes) })
    }

    fn both(&mut self) -> Result<Node, FilterError> {
        let mut nodes = vec![self.one()?];
        while self.takes("and") {
            nodes.push(self.one()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::And(nodes) })
    }

    fn one(&mut self) -> Result<Node, FilterError> {
        self.skip_spaces();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(
                self.at,
                format!("at most {MAX_DEPTH} brackets and `not`s inside one another"),
            ));
        }
        let node = if self.takes("not") {
            Node::Not(Box::new(self.one()?))
        } else if self.rest().starts_with('(') {
            self.at += 1;
            let node = self.expression()?;
            self.skip_spaces();
            if !self.rest().starts_with(')') {
                return Err(self.error(self.at, "`)`, `and` or `or`"));
            }
            self.at += 1;
            node
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn comparison(&mut self) -> Result<Node, FilterError> {
        let start = self.at;
        let len = self
            .rest()
            .find(['=', '!', '<', '>', '~', '(', ')', '"', '\''])
            .unwrap_or(self.rest().len());
        let name = self.rest().get(..len).unwrap_or("").trim_end().to_owned();
        let Some(column) = find(self.table, &name).filter(|_| !name.is_empty()) else {
            let names: Vec<&str> = columns_of(self.table).map(|column| column.name).collect();
            let mut error = self.error(start, format!("a column: {}", names.join(", ")));
            if !name.is_empty() {
                error.found = format!("`{name}`");
            }
            return Err(error);
        };
        self.at += len;
        let at = self.at;
        let Some(&(sign, operator)) =
            OPERATORS.iter().find(|(sign, _)| self.rest().starts_with(sign))
        else {
            return Err(self.error(at, "one of = != < <= > >= ~"));
        };
        let is_text = matches!(column.kind, Kind::Text | Kind::Stack(_));
        let fits = match operator {
            Operator::Equal | Operator::Unequal => true,
            Operator::Contains => is_text,
            _ => !is_text,
        };
        if !fits {
            let known = if is_text { "= != or ~" } else { "= != < <= > or >=" };
            return Err(self.error(
                at,
                format!("{known}, because `{}` is a {}", column.name, column.kind.word()),
            ));
        }
        self.at += sign.len();
        let (offset, value) = self.value()?;
        let value = match column.kind {
            Kind::Text | Kind::Stack(_) => Value::Text(visible(&value).to_lowercase()),
            Kind::Duration => Value::Number(
                duration(&value)
                    .ok_or_else(|| self.error(offset, "a duration such as 5ms, 200us or 1.2s"))?,
            ),
            Kind::Time => {
                let since = duration(&value);
                Value::Number(since.ok_or_else(|| {
                    self.error(offset, "a time since the trace's origin such as 1.2s or 300ms")
                })?)
            }
            Kind::Count | Kind::Number => {
                Value::Number(value.parse().map_err(|_| self.error(offset, "a whole number"))?)
            }
        };
        Ok(Node::Test(column, operator, value))
    }

    /// A quoted text, or everything up to a space or bracket; with its offset.
    fn value(&mut self) -> Result<(usize, String), FilterError> {
        self.skip_spaces();
        let start = self.at;
        let quote = self.rest().chars().next().filter(|c| matches!(c, '"' | '\''));
        let value = match quote {
            Some(quote) => {
                let inner = self.rest().get(1..).unwrap_or("");
                let end = inner
                    .find(quote)
                    .ok_or_else(|| self.error(start, format!("a closing {quote} after it")))?;
                let value = inner.get(..end).unwrap_or("").to_owned();
                self.at += end + 2;
                value
            }
            None => {
                let end = self
                    .rest()
                    .find(|c: char| c.is_whitespace() || c == '(' || c == ')')
                    .unwrap_or(self.rest().len());
                let value = self.rest().get(..end).unwrap_or("").to_owned();
                self.at += end;
                value
            }
        };
        if value.is_empty() && quote.is_none() {
            return Err(self.error(start, "a value"));
        }
        Ok((start, value))
    }
}

/// `5ms`, `1.2s`, `200us`, `80ns`, `0`; in nanoseconds.
fn duration(text: &str) -> Option<Cell> {
    match text {
        "0" => Some(0),
        _ => read_duration(text).map(|time| time.as_nanos() as Cell),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> (usize, String, String) {
        let error = Filter::parse(Name::Switches, text).expect_err(text);
        (error.offset, error.found, error.expected)
    }

    #[test]
    fn expressions_are_read_as_written() {
        let right = [
            "waited > 5ms",
            "waited>5ms and process=chrome",
            "not (reason = idle or reason = kernel_idle) and switched in >= 1.2s",
            "NOT wait stack ~ 'operator()' OR cpu != 3",
            "New Thread Stack ~ mutex and Time-Since-Last < 200us",
            "((tid = 7))",
            "priority < 100 or waited = 0",
        ];
        for text in right {
            Filter::parse(Name::Switches, text).expect(text);
        }
        // `and` binds tighter than `or`.
        assert!(matches!(
            Filter::parse(Name::Switches, "tid=1 or tid=2 and cpu=0").expect("valid").0,
            Node::Or(..)
        ));
        assert!(matches!(
            Filter::parse(Name::Switches, "(tid=1 or tid=2) and cpu=0").expect("valid").0,
            Node::And(..)
        ));
    }

    #[test]
    fn errors_point_at_what_is_wrong() {
        assert_eq!(wrong("waited > five").0, 9);
        assert_eq!(wrong("waited > 5").2, "a duration such as 5ms, 200us or 1.2s");
        assert_eq!(wrong("waitd > 5ms").0, 0);
        assert!(wrong("waitd > 5ms").2.starts_with("a column: switched in, "));
        assert_eq!(wrong("waited > 5ms and"), (16, "the end".to_owned(), wrong("").2));
        assert_eq!(
            wrong("waited"),
            (6, "the end".to_owned(), "one of = != < <= > >= ~".to_owned())
        );
        assert_eq!(wrong("waited ~ 5ms").0, 7);
        assert_eq!(wrong("thread > x").2, "= != or ~, because `thread` is a text");
        assert_eq!(wrong("(tid = 1"), (8, "the end".to_owned(), "`)`, `and` or `or`".to_owned()));
        assert_eq!(
            wrong("tid = 1 cpu = 2"),
            (8, "`cpu`".to_owned(), "`and`, `or`, or the end".to_owned())
        );
        assert_eq!(wrong("thread = \"x").0, 9);
        assert_eq!(wrong("tid ="), (5, "the end".to_owned(), "a value".to_owned()));
        assert_eq!(wrong(&"(".repeat(10_000)).0, MAX_DEPTH);
        assert_eq!(wrong("thread = ä and ö = 1").0, 16);
        let shown = Filter::parse(Name::Switches, "thread = ä and ö = 1")
            .expect_err("no such column")
            .to_string();
        assert!(shown.ends_with("\n  thread = ä and ö = 1\n                 ^"), "{shown}");
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("5ms"), Some(5_000_000));
        assert_eq!(duration("1.2s"), Some(1_200_000_000));
        assert_eq!(duration("0"), Some(0));
        for text in ["5", "-1s", "ms", "5 parsecs", "1e300s", "", "NaNs"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
