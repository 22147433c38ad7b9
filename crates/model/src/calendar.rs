//! The calendar: dates of days.

use std::fmt;

/// A date of the Gregorian calendar, which prints as `2026-01-02`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Date {
    year: i64,
    month: i64,
    day: i64,
}

impl Date {
    /// The date this many days after 1970-01-01.
    pub const fn after_epoch(days: i64) -> Self {
        /// Days in 400 years, an era, after which the calendar repeats.
        const ERA: i64 = 146_097;
        /// From the era's begin before 1970, a first of March, until 1970-01-01.
        const EPOCH: i64 = 719_468;
        // Counting years from March puts the leap day at the end of a year. The formulas are Howard
        // Hinnant's, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
        let days = days + EPOCH;
        let (era, of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let (year, month) = (era * 400 + year, if month < 10 { month + 3 } else { month - 9 });
        Self { year: if month <= 2 { year + 1 } else { year }, month, day }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_each_other_across_leap_years_and_centuries() {
        let date = |days| Date::after_epoch(days).to_string();
        for (days, expected) in [
            (-719_468, "0000-03-01"),
            (-134_774, "1601-01-01"),
            (-1, "1969-12-31"),
            (0, "1970-01-01"),
            (11_015, "2000-02-28"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(date(days), expected, "{days}");
        }
    }
}
