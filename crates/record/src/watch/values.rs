//! Values of the configuration: times, sizes, shares.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;
use std::time::Duration;
use unhitch_model::units::{read_bytes, read_duration};

/// The longest time that makes sense here.
const MAX_TIME: Duration = Duration::from_secs(366 * 24 * 3600);

/// A time such as `500ms`, `10s`, `5m` or `1h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Time(pub(super) Duration);

/// A size such as `16M` or `2G`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Size(pub(super) u64);

/// A part of a disk: `5%`, or a size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Share {
    /// Per cent.
    Percent(f64),
    /// Bytes.
    Bytes(u64),
}

impl Share {
    /// In bytes, of a whole.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (whole as f64 * percent / 100.0) as u64,
        }
    }
}

fn time(text: &str) -> Result<Time, String> {
    let wrong = || format!("not a time: {text:?}; write it as 500ms, 10s, 5m or 1h");
    let time = read_duration(text).ok_or_else(wrong)?;
    if time > MAX_TIME { Err(format!("{text} is too long")) } else { Ok(Time(time)) }
}

fn size(text: &str) -> Result<Size, String> {
    let wrong = || format!("not a size: {text:?}; write it as 16M or 2G");
    read_bytes(text).map(Size).ok_or_else(wrong)
}

fn share(text: &str) -> Result<Share, String> {
    let Some(percent) = text.strip_suffix('%') else {
        return size(text).map(|size| Share::Bytes(size.0));
    };
    let percent = percent.trim().parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.map(Share::Percent).ok_or_else(|| format!("not a part of a disk: {text:?}"))
}

/// Reads a value from text, with errors that say what is wrong with it.
struct Text<T> {
    parse: fn(&str) -> Result<T, String>,
    expected: &'static str,
}

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Text { parse: time, expected: "a time in quotes, such as \"500ms\"" })
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Text { parse: size, expected: "a size in quotes, such as \"16M\"" })
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Text { parse: share, expected: "\"5%\", or a size such as \"2G\"" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_people_write_them() {
        assert_eq!(time("500ms"), Ok(Time(Duration::from_millis(500))));
        assert_eq!(time("1.5 h"), Ok(Time(Duration::from_secs(5400))));
        for wrong in ["", "5", "ms", "-1s", "1e99s", "soon", "9999999h", "1s x"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            (size("2G"), size("512KiB"), size("7")),
            (Ok(Size(2 << 30)), Ok(Size(512 << 10)), Ok(Size(7)))
        );
        for wrong in ["", "G", "1.5G", "-1", "99999999999999999T", "1X"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            (share("5%"), share("1M")),
            (Ok(Share::Percent(5.0)), Ok(Share::Bytes(1 << 20)))
        );
        assert!(share("101%").is_err() && share("%").is_err() && share("NaN%").is_err());
        assert_eq!((Share::Percent(5.0).of(1000), Share::Bytes(7).of(1000)), (50, 7));
    }
}
