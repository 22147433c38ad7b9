//! The printed table: what, ours, theirs, ratio, goal, met or not.

/// The rows, in the order of measurement.
#[derive(Default)]
pub struct Table {
    rows: Vec<[String; 6]>,
}

impl Table {
    /// Adds a figure of ours and theirs, with its goal and whether it is met; `None` if the machine
    /// was too noisy.
    pub fn row(
        &mut self,
        what: &str,
        ours: String,
        theirs: String,
        ratio: String,
        goal: &str,
        met: Option<bool>,
    ) {
        let met = match met {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None if goal.is_empty() => "",
            None => "too noisy to say",
        };
        self.rows.push([what.to_owned(), ours, theirs, ratio, goal.to_owned(), met.to_owned()]);
        // Also printed at once, because a run takes minutes.
        eprintln!("{}", self.rows.last().map_or(String::new(), |row| row.join(" | ")));
    }

    /// Adds a figure of ours alone.
    pub fn ours(&mut self, what: &str, ours: String, goal: &str, met: Option<bool>) {
        self.row(what, ours, String::new(), String::new(), goal, met);
    }

    /// Adds what could not be measured, and why.
    pub fn skipped(&mut self, what: &str, why: impl std::fmt::Display) {
        self.ours(what, format!("skipped: {why}"), "", None);
    }
}

/// Each column is as wide as its widest cell. Cells show the noise: median (least … most).
impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let head = ["what", "ours", "theirs", "ratio", "goal", ""].map(str::to_owned);
        let rows = || std::iter::once(&head).chain(&self.rows);
        let widths: Vec<usize> = (0..head.len())
            .map(|column| rows().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        for row in rows() {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}
