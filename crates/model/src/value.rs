//! [`Value`]: the value of an event's field, and how it prints.

use crate::{Date, NameId};
use std::{borrow::Cow, fmt, net::IpAddr};

/// The value of one field of an event.
#[derive(Clone, PartialEq, Debug)]
pub enum Value<'a> {
    /// A number.
    Unsigned(u64),
    /// A number that may be negative.
    Signed(i64),
    /// A number that is shown as hexadecimal: an address, a handle, flags.
    Hex(u64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A text.
    Text(Cow<'a, str>),
    /// A GUID as it lies in memory.
    Guid([u8; 16]),
    /// 100 ns since 1601, UTC.
    FileTime(u64),
    /// Year, month, day of the week, day, hour, minute, second, millisecond.
    SystemTime([u16; 8]),
    /// A security identifier, empty for none.
    Sid(&'a [u8]),
    /// A network address.
    Ip(IpAddr),
    /// Bytes of unknown meaning.
    Bytes(&'a [u8]),
    /// Several values of one type.
    List(Vec<Value<'a>>),
    /// Values of different types, with their names.
    Struct(Vec<(NameId, Value<'a>)>),
}

impl Value<'_> {
    /// The value of a number that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Unsigned(n) | Self::Hex(n) | Self::FileTime(n) => Some(n),
            Self::Signed(n) => u64::try_from(n).ok(),
            Self::Bool(yes) => Some(u64::from(yes)),
            _ => None,
        }
    }

    /// The value of a number.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::Float(n) => Some(n),
            Self::Signed(n) => Some(n as f64),
            _ => self.as_u64().map(|n| n as f64),
        }
    }

    /// The value of a text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Maximum number of bytes of unknown meaning that are shown.
const MAX_SHOWN_BYTES: usize = 32;

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(n) => write!(f, "{n}"),
            Self::Signed(n) => write!(f, "{n}"),
            Self::Hex(n) => write!(f, "{n:#x}"),
            Self::Float(n) => write!(f, "{n}"),
            Self::Bool(yes) => write!(f, "{yes}"),
            Self::Text(text) => f.write_str(text),
            Self::Guid(bytes) => f.write_str(&guid_text(bytes)),
            Self::FileTime(ticks) => file_time(*ticks, f),
            Self::SystemTime([year, month, _, day, hour, minute, second, ms]) => {
                write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03}")
            }
            Self::Sid(bytes) => sid(bytes, f),
            Self::Ip(address) => write!(f, "{address}"),
            Self::Bytes(bytes) => {
                bytes.iter().take(MAX_SHOWN_BYTES).try_for_each(|byte| write!(f, "{byte:02x}"))?;
                if bytes.len() > MAX_SHOWN_BYTES {
                    write!(f, "… ({} bytes)", bytes.len())
                } else {
                    Ok(())
                }
            }
            Self::List(values) => joined(f, ["[", "]"], values.iter()),
            Self::Struct(values) => joined(f, ["{", "}"], values.iter().map(|(_, value)| value)),
        }
    }
}

fn joined<'a>(
    f: &mut fmt::Formatter<'_>,
    around: [&str; 2],
    values: impl Iterator<Item = &'a Value<'a>>,
) -> fmt::Result {
    f.write_str(around[0])?;
    for (index, value) in values.enumerate() {
        write!(f, "{}{value}", if index > 0 { ", " } else { "" })?;
    }
    f.write_str(around[1])
}

/// A GUID as Windows writes it, without braces: its first three parts are little-endian numbers.
pub fn guid_text(bytes: &[u8; 16]) -> String {
    let [a, b, c, d, e, f, g, h, rest @ ..] = *bytes;
    let (first, second, third) =
        (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, f]), u16::from_le_bytes([g, h]));
    let rest = u64::from_be_bytes(rest);
    format!(
        "{first:08x}-{second:04x}-{third:04x}-{:04x}-{:012x}",
        rest >> 48,
        rest & 0xffff_ffff_ffff
    )
}

fn file_time(ticks: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    /// From 1601-01-01, when Windows' time begins, until 1970.
    const DAYS_TO_EPOCH: i64 = 134_774;
    let (days, of_day) = (ticks / 864_000_000_000, ticks % 864_000_000_000);
    let date = Date::after_epoch(days as i64 - DAYS_TO_EPOCH);
    let seconds = of_day / 10_000_000;
    write!(
        f,
        "{date} {:02}:{:02}:{:02}.{:07}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        of_day % 10_000_000
    )
}

fn sid(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let [revision, _, authority @ ..] = bytes else { return Ok(()) };
    let Some((authority, parts)) = authority.split_first_chunk::<6>() else { return Ok(()) };
    let authority = authority.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    write!(f, "S-{revision}-{authority}")?;
    parts.as_chunks::<4>().0.iter().try_for_each(|part| write!(f, "-{}", u32::from_le_bytes(*part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_windows_writes_them() {
        assert_eq!(Value::FileTime(0).to_string(), "1601-01-01 00:00:00.0000000");
        assert_eq!(
            Value::FileTime(132_404_548_205_691_234).to_string(),
            "2020-07-29 00:07:00.5691234"
        );
        assert_eq!(
            Value::FileTime(116_444_736_000_000_000 + 951_782_400 * 10_000_000).to_string(),
            "2000-02-29 00:00:00.0000000"
        );
        assert_eq!(
            Value::FileTime(u64::MAX).to_string().len(),
            "60056-05-28 05:36:10.9551615".len()
        );
        let system = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
        assert_eq!(Value::Sid(&system).to_string(), "S-1-5-18");
        let guid = [
            0xee, 0xf2, 0x73, 0xb3, 0x18, 0x4f, 0x83, 0x30, 0x27, 0x62, 0x73, 0x2d, 0xe0, 0xbc,
            0xe2, 0x56,
        ];
        assert_eq!(Value::Guid(guid).to_string(), "b373f2ee-4f18-3083-2762-732de0bce256");
    }
}
