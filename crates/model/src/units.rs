//! Numbers as people read and write them. Numbers have units; hangs are in seconds, waits in ms and µs.

use std::time::Duration;

/// A duration: `2.810 s`, `115.6 ms`, `52.0 µs`, `999 ns`.
pub fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

/// Reads a time such as `80ns`, `200us`, `500ms`, `1.5 s`, `5m` or `1h`; nothing without a unit, below 0,
/// or beyond 292 years.
pub fn read_duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let scale_ns = match text.get(digits.len()..)? {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3_600e9,
        _ => return None,
    };
    let ns = (digits.trim().parse::<f64>().ok()? * scale_ns).round();
    (0.0..i64::MAX as f64).contains(&ns).then(|| Duration::from_nanos(ns as u64))
}

/// Reads a size such as `512K`, `16M`, `2GiB` or `1T`, in bytes; a bare number is in bytes.
pub fn read_bytes(text: &str) -> Option<u64> {
    let upper = text.to_ascii_uppercase();
    let upper = upper.trim_end_matches("IB").trim_end_matches('B');
    let digits = upper.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &upper[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A count with thousands separated: `5,768`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes as hexadecimal digits, such as a build id: `0fa0`.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `1 thread`, `2 threads`.
pub fn plural(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A part of a whole, rounded down: `99.1 %`. Only the whole is `100.0 %`.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let tenths = (part as u128 * 1000 / whole as u128) as u64;
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// Shares of the parts' sum, which add up to exactly 100.0 %. Each is rounded down, and the
/// remaining tenths go to the parts that lost most. Only the whole is `100.0 %`.
pub fn percents(parts: &[u64]) -> Vec<String> {
    let whole: u128 = parts.iter().map(|&part| u128::from(part)).sum();
    if whole == 0 {
        return vec!["0.0 %".to_owned(); parts.len()];
    }
    let mut tenths: Vec<u128> = parts.iter().map(|&part| u128::from(part) * 1000 / whole).collect();
    let left = 1000 - tenths.iter().sum::<u128>();
    let mut by_loss: Vec<usize> = (0..parts.len()).collect();
    by_loss
        .sort_by_key(|&index| (std::cmp::Reverse(u128::from(parts[index]) * 1000 % whole), index));
    let is_almost_all = |index: usize| tenths[index] == 999;
    by_loss.sort_by_key(|&index| is_almost_all(index));
    by_loss.into_iter().take(left as usize).for_each(|index| tenths[index] += 1);
    tenths.into_iter().map(|tenths| format!("{}.{} %", tenths / 10, tenths % 10)).collect()
}

/// A part of a whole, rounded: `99.4 %`. Only the whole is `100.0 %`, and only nothing is `0.0 %`.
pub fn rounded_percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let rounded = (u128::from(part) * 2000 + u128::from(whole)) / (u128::from(whole) * 2);
    let tenths = if part < whole { rounded.min(999) } else { rounded };
    match tenths {
        0 if part > 0 => "< 0.1 %".to_owned(),
        _ => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// A size with three significant digits: `4 KiB`, `59.2 MiB`, `2 TiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (n.max(1).ilog2() / 10) as usize;
    let value = n as f64 / (1_u64 << (10 * unit)) as f64;
    let text = match value {
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    format!("{text} {}", UNITS.get(unit).copied().unwrap_or("EiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_an_engineer_writes_them() {
        assert_eq!(duration(2_810_000_000), "2.810 s");
        assert_eq!(duration(115_600_000), "115.6 ms");
        assert_eq!(duration(52_000), "52.0 µs");
        assert_eq!(
            percents(&[964_500, 27_450, 6_000, 1_530, 430, 90]),
            ["96.5 %", "2.7 %", "0.6 %", "0.2 %", "0.0 %", "0.0 %"]
        );
        assert_eq!(percents(&[1, 1, 1]), ["33.4 %", "33.3 %", "33.3 %"]);
        assert_eq!((percents(&[]), percents(&[0, 0])), (vec![], vec!["0.0 %".to_owned(); 2]));
        assert_eq!(percents(&[99_999, 1]), ["99.9 %", "0.1 %"]);
        assert_eq!(percents(&[7, 0]), ["100.0 %", "0.0 %"]);
        assert_eq!(percents(&[u64::MAX, u64::MAX]), ["50.0 %", "50.0 %"]);
        assert_eq!([999, 5_768, 1_000_000].map(count), ["999", "5,768", "1,000,000"]);
        assert_eq!([1, 2].map(|n| plural(n, "thread")), ["1 thread", "2 threads"]);
        let sizes = [0, 512, 4096, 62_074_880, 2 << 40, 1_100_000, u64::MAX];
        assert_eq!(
            sizes.map(bytes),
            ["0 B", "512 B", "4 KiB", "59.2 MiB", "2 TiB", "1.05 MiB", "16 EiB"]
        );
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        let read = |text: &str| read_duration(text).map(|time| time.as_nanos());
        assert_eq!(["80ns", "200us", "200µs"].map(read), [Some(80), Some(200_000), Some(200_000)]);
        assert_eq!(["5ms", "1.2s"].map(read), [Some(5_000_000), Some(1_200_000_000)]);
        assert_eq!(
            ["1.5 m", "2min", "1h"].map(read),
            [90, 120, 3600].map(|s| Some(s * 1_000_000_000))
        );
        let wrong =
            ["", "5", "ms", "-1s", "1e99s", "soon", "9999999999h", "1s x", "NaNs", "5 parsecs"];
        assert_eq!(wrong.map(read), [None; 10]);
        let sizes = ["2G", "512KiB", "7", "16 MB", "1T"].map(read_bytes);
        assert_eq!(sizes, [2 << 30, 512 << 10, 7, 16 << 20, 1 << 40].map(Some));
        let wrong = ["", "G", "1.5G", "-1", "99999999999999999T", "1X"];
        assert_eq!(wrong.map(read_bytes), [None; 6]);
    }
}
