//! A user's query of a table, checked against the registry before any trace is read.

use super::Name;
use super::column::{Column, Kind, columns_of, find};
use super::filter::{Filter, FilterError};
use unhitch_model::Trace;

/// How the cells of a group are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aggregate {
    /// Their sum.
    Sum,
    /// Their mean, rounded down.
    Average,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
}

impl Aggregate {
    const ALL: [Self; 4] = [Self::Sum, Self::Average, Self::Min, Self::Max];

    /// The word in headers and options.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Average => "avg",
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

/// A query as the user wrote it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Words<'w> {
    /// Columns to group by, separated by commas; `none` for single rows.
    pub by: Option<&'w str>,
    /// What to show: columns, or `count`, `sum:COLUMN`, `avg:`, `min:`, `max:` of groups; `all` for
    /// every column.
    pub show: Option<&'w str>,
    /// A filter expression.
    pub filter: Option<&'w str>,
    /// A column or aggregate to sort by, with `:asc` or `:desc`.
    pub sort: Option<&'w str>,
}

/// Why a query is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// A column that the table does not have.
    #[error("{option}: {table} has no column `{found}`; it has {known}")]
    NoColumn {
        /// The option.
        option: &'static str,
        /// The table.
        table: &'static str,
        /// What was written.
        found: String,
        /// The table's columns.
        known: String,
    },
    /// A column of single rows in a query for groups.
    #[error("{option}: a group has no single `{found}`; add it to --by, or write {expected}")]
    NotAggregated {
        /// The option.
        option: &'static str,
        /// What was written.
        found: String,
        /// What is accepted.
        expected: &'static str,
    },
    /// An aggregate that the kind of column does not have.
    #[error("{option}: `{found}` is not possible, because the column is a {kind}")]
    NoAggregate {
        /// The option.
        option: &'static str,
        /// What was written.
        found: String,
        /// What the column holds.
        kind: &'static str,
    },
    /// A filter expression.
    #[error("--where: {0}")]
    Filter(#[from] FilterError),
}

/// What an output column shows, or what the order is by.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shown {
    /// A column of single rows, or one to group by.
    Column(&'static Column),
    /// The number of rows in the group.
    Count,
    /// An aggregate of a group's cells.
    Aggregate(Aggregate, &'static Column),
}

impl Shown {
    pub fn same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Column(a), Self::Column(b)) => std::ptr::eq(a, b),
            (Self::Aggregate(a, x), Self::Aggregate(b, y)) => a == b && std::ptr::eq(x, y),
            (Self::Count, Self::Count) => true,
            _ => false,
        }
    }

    /// Its column; none for the count of rows.
    pub fn column(self) -> Option<&'static Column> {
        match self {
            Self::Column(column) | Self::Aggregate(_, column) => Some(column),
            Self::Count => None,
        }
    }

    /// The kind of its cells.
    pub fn kind(self) -> Kind {
        match self {
            Self::Column(column) | Self::Aggregate(_, column) => column.kind,
            Self::Count => Kind::Count,
        }
    }

    /// Its key in JSON and CSV: `sum_waited_ns`.
    pub fn key(self) -> String {
        super::column::key(&self.title(), self.kind())
    }

    /// Its header.
    pub fn title(self) -> String {
        match self {
            Self::Column(column) => column.name.to_owned(),
            Self::Count => "count".to_owned(),
            Self::Aggregate(aggregate, column) => format!("{} {}", aggregate.word(), column.name),
        }
    }
}

/// The heading of an output column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The title.
    pub title: String,
    /// The column's name; none for the count of rows.
    pub column: Option<&'static str>,
    /// The word for its aggregate; none for a plain column.
    pub aggregate: Option<&'static str>,
    /// The kind of its cells.
    pub kind: Kind,
}

impl Shown {
    pub(super) fn heading(self) -> Heading {
        let (column, aggregate) = match self {
            Self::Column(column) => (Some(column.name), None),
            Self::Count => (None, Some("count")),
            Self::Aggregate(aggregate, column) => (Some(column.name), Some(aggregate.word())),
        };
        Heading { title: self.title(), column, aggregate, kind: self.kind() }
    }
}

/// A checked query of one table.
#[derive(Debug)]
pub struct Query {
    pub(super) table: Name,
    /// None for single rows.
    pub(super) by: Option<Vec<&'static Column>>,
    pub(super) shown: Vec<Shown>,
    pub(super) filter: Option<Filter>,
    pub(super) sort: Shown,
    pub(super) descending: bool,
    /// False if the order is the table's default.
    pub(super) sort_chosen: bool,
}

impl Query {
    /// The columns to group by, from the outside in; none for single rows.
    pub fn groups(&self) -> &[&'static Column] {
        self.by.as_deref().unwrap_or(&[])
    }

    /// What to sort by in a trace: where the data of the table's default was not recorded, the same
    /// by samples.
    pub(super) fn sort_in(&self, trace: &Trace) -> Shown {
        let is_lacking = |column: &Column| column.needs(self.table).any(|what| !trace.has(what));
        if self.sort_chosen || !self.sort.column().is_some_and(is_lacking) {
            return self.sort;
        }
        let Some(sampled) = find(self.table, "sampled") else { return self.sort };
        match self.sort {
            Shown::Aggregate(aggregate, _) => Shown::Aggregate(aggregate, sampled),
            _ => Shown::Column(sampled),
        }
    }

    /// Checks a user's words. The table's defaults replace missing ones.
    ///
    /// # Errors
    /// When they name something that the table does not have.
    pub fn new(table: Name, words: Words<'_>) -> Result<Self, QueryError> {
        let info = table.info();
        let wants_groups = words.show.is_some_and(|show| {
            show.split(',').all(|word| word.trim() == "count" || word.contains(':'))
        });
        let by = match words.by {
            Some("none") => None,
            Some(by) => Some(
                by.split(',')
                    .map(|word| column("--by", table, word))
                    .collect::<Result<Vec<_>, _>>()?,
            ),
            None if !info.by.is_empty() => Some(
                info.by.iter().map(|word| column("--by", table, word)).collect::<Result<_, _>>()?,
            ),
            // Sums of everything: one group.
            None => wants_groups.then(Vec::new),
        };
        let words_of =
            |list: &'static [&'static str]| list.iter().map(|word| (*word).to_owned()).collect();
        let show: Vec<String> = match words.show {
            Some("all") if by.is_none() => {
                columns_of(table).map(|column| column.name.to_owned()).collect()
            }
            Some(show) => show.split(',').map(str::to_owned).collect(),
            None if by.is_some() => words_of(info.aggregates),
            None => words_of(info.show),
        };
        let mut shown: Vec<Shown> =
            by.iter().flatten().map(|column| Shown::Column(column)).collect();
        for word in show {
            let next = self::shown("--show", table, by.as_deref(), &word)?;
            if !shown.iter().any(|known| known.same(next)) {
                shown.push(next);
            }
        }
        let default_sort = match &by {
            None => info.sort.to_owned(),
            // The first sum, which is what the table is about; otherwise the first aggregate.
            Some(_) => {
                let sum =
                    shown.iter().find(|shown| matches!(shown, Shown::Aggregate(Aggregate::Sum, _)));
                let any = sum
                    .or(shown.iter().find(|shown| !matches!(shown, Shown::Column(_))))
                    .or(shown.first());
                any.map_or_else(|| "count".to_owned(), |shown| option_word(*shown))
            }
        };
        let word = words.sort.unwrap_or(&default_sort);
        let (word, direction) = match word.rsplit_once(':') {
            Some((word, "asc")) => (word, Some(false)),
            Some((word, "desc")) => (word, Some(true)),
            _ => (word, None),
        };
        let sort = self::shown("--sort", table, by.as_deref(), word)?;
        let descending = direction.unwrap_or(matches!(sort.kind(), Kind::Duration | Kind::Count));
        let filter = words.filter.map(|text| Filter::parse(table, text)).transpose()?;
        Ok(Self { table, by, shown, filter, sort, descending, sort_chosen: words.sort.is_some() })
    }
}

/// How an option names what is shown.
fn option_word(shown: Shown) -> String {
    match shown {
        Shown::Aggregate(aggregate, column) => format!("{}:{}", aggregate.word(), column.name),
        other => other.title(),
    }
}

fn column(option: &'static str, table: Name, word: &str) -> Result<&'static Column, QueryError> {
    find(table, word).ok_or_else(|| QueryError::NoColumn {
        option,
        table: table.info().word,
        found: word.trim().to_owned(),
        known: columns_of(table).map(|column| column.name).collect::<Vec<_>>().join(", "),
    })
}

fn shown(
    option: &'static str,
    table: Name,
    by: Option<&[&'static Column]>,
    word: &str,
) -> Result<Shown, QueryError> {
    let word = word.trim();
    let Some(by) = by else { return column(option, table, word).map(Shown::Column) };
    if word == "count" {
        return Ok(Shown::Count);
    }
    let aggregate = word.split_once([':', ' ']).and_then(|(aggregate, rest)| {
        let mut all = Aggregate::ALL.into_iter();
        let known = all.find(|known| known.word().eq_ignore_ascii_case(aggregate.trim()))?;
        Some((known, rest))
    });
    let Some((aggregate, name)) = aggregate else {
        let column = column(option, table, word)?;
        let grouped = by.iter().any(|known| std::ptr::eq(*known, column));
        let expected = if matches!(column.kind, Kind::Text | Kind::Stack(_)) {
            "count"
        } else {
            "sum:, avg:, min: or max: before it"
        };
        return if grouped {
            Ok(Shown::Column(column))
        } else {
            Err(QueryError::NotAggregated { option, found: word.to_owned(), expected })
        };
    };
    let column = column(option, table, name)?;
    let sensible = match aggregate {
        Aggregate::Sum | Aggregate::Average => matches!(column.kind, Kind::Duration | Kind::Count),
        _ => !matches!(column.kind, Kind::Text | Kind::Stack(_)),
    };
    if !sensible {
        return Err(QueryError::NoAggregate {
            option,
            found: word.to_owned(),
            kind: column.kind.word(),
        });
    }
    Ok(Shown::Aggregate(aggregate, column))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TABLES;

    #[test]
    fn every_tables_default_is_a_valid_query() {
        for table in TABLES {
            let query = Query::new(table.name, Words::default()).expect(table.word);
            assert!(!query.shown.is_empty());
            for by in ["none", "all of them"] {
                let names: Vec<&str> = columns_of(table.name).map(|column| column.name).collect();
                let by = if by == "none" { by.to_owned() } else { names.join(",") };
                Query::new(table.name, Words { by: Some(&by), ..Words::default() })
                    .expect(table.word);
            }
            Query::new(
                table.name,
                Words { by: Some("none"), show: Some("all"), ..Words::default() },
            )
            .expect(table.word);
        }
    }

    #[test]
    fn impossible_queries_are_reported() {
        let error =
            |words: Words<'_>| Query::new(Name::Switches, words).expect_err("wrong").to_string();
        assert!(
            error(Words { by: Some("threda"), ..Words::default() })
                .starts_with("--by: switches has no column `threda`; it has switched in, ")
        );
        let show = |show| error(Words { by: Some("thread"), show: Some(show), ..Words::default() });
        assert_eq!(
            show("waited"),
            "--show: a group has no single `waited`; add it to --by, or write sum:, avg:, min: or max: before it"
        );
        assert_eq!(
            show("sum:wait stack"),
            "--show: `sum:wait stack` is not possible, because the column is a stack"
        );
        assert_eq!(
            show("sum:tid"),
            "--show: `sum:tid` is not possible, because the column is a number"
        );
        assert!(
            error(Words { sort: Some("sum:waited"), ..Words::default() })
                .starts_with("--sort: switches has no column `sum:waited`")
        );
        assert!(
            error(Words { filter: Some("x"), ..Words::default() })
                .starts_with("--where: found `x` at offset 0, expected a column")
        );
    }

    #[test]
    fn sums_alone_make_one_group_of_everything() {
        let query = Query::new(
            Name::Switches,
            Words { show: Some("count,sum:waited"), ..Words::default() },
        )
        .expect("valid");
        assert!(query.by.is_some_and(|by| by.is_empty()));
        let query = Query::new(
            Name::Switches,
            Words { by: Some("thread"), sort: Some("max waited:asc"), ..Words::default() },
        )
        .expect("valid");
        assert!(!query.descending && matches!(query.sort, Shown::Aggregate(Aggregate::Max, _)));
    }
}
