//! Parsers of option values: durations and sizes.

use std::time::Duration;
#[cfg(target_os = "linux")]
use unhitch_model::units::read_bytes;
use unhitch_model::units::read_duration;

/// Parses a duration such as `10s`, `500ms` or `1.5`; a bare number is in seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let time = read_duration(text).or_else(|| read_duration(&format!("{text}s")));
    time.ok_or_else(|| format!("not a time: {text:?}; write it as 10s, 500ms or 1.5"))
}

/// Parses the size of a ring buffer, such as `16M`, `512K` or `1G`; a bare number is in bytes.
#[cfg(target_os = "linux")]
pub fn parse_size(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text)?;
    let size = usize::try_from(bytes).ok().filter(|size| (256 << 10..=1 << 30).contains(size));
    size.ok_or_else(|| format!("{text} is out of range: a ring buffer has 256K to 1G"))
}

/// Parses a size in bytes, such as `500M` or `2G`; a bare number is in bytes.
#[cfg(target_os = "linux")]
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    read_bytes(text).ok_or_else(|| format!("not a size: {text:?}; write it as 16M or 512K"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_as_people_write_them() {
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
                && parse_size("2G").is_err()
        );
    }
}
