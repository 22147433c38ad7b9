//! Unpacks `.xz` data in memory, never to more than a given length.
//!
//! Format: "The .xz File Format", 1.2.1 (tukaani.org). LZMA2 itself is decoded by the crate
//! `lzma-rust2`, built without its `unsafe`. *Why the container is read here*: this reader takes
//! memory in proportion to what it may return, not to the dictionary that the data claims to need.
//! *Why no checksum is verified*: it would find damage, but no lie, and the reader of the content
//! expects both.

use lzma_rust2::Lzma2Reader;
use std::io::Read;

/// How a stream begins.
const MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
/// Length of a stream's header, bytes.
const STREAM_HEADER_LEN: usize = 12;
/// The only filter that is supported, and the only one that data other than code needs.
const LZMA2: u64 = 0x21;
/// Flags of a block: which lengths its header has.
const PACKED_LEN: u8 = 0x40;
const UNPACKED_LEN: u8 = 0x80;
/// The largest dictionary is 4 GiB - 1, by this property.
const MAX_DICTIONARY: u8 = 40;
/// Minimum length of a dictionary, bytes.
const MIN_DICTIONARY_LEN: u32 = 4096;

/// What unpacking gives.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Unpacked {
    All(Vec<u8>),
    /// It has more bytes than it may have.
    TooLong,
}

/// Unpacks the first stream of `packed`, to at most `max_len` bytes. `None` if it is damaged, or uses
/// a filter other than LZMA2.
pub(crate) fn unpack(packed: &[u8], max_len: u32) -> Option<Unpacked> {
    let (header, mut rest) = packed.split_at_checked(STREAM_HEADER_LEN)?;
    if !header.starts_with(&MAGIC) || header[6] != 0 {
        return None;
    }
    let check_len = check_len(header[7])?;
    let mut unpacked = Vec::new();
    loop {
        let (&header_words, _) = rest.split_first()?;
        // The index, which follows the last block, starts with a zero.
        if header_words == 0 {
            return Some(Unpacked::All(unpacked));
        }
        let (header, data) = rest.split_at_checked((usize::from(header_words) + 1) * 4)?;
        let dictionary_len = dictionary_len(header)?.min(max_len.max(MIN_DICTIONARY_LEN));
        let mut reader = Lzma2Reader::new(data, dictionary_len, None);
        let left = u64::from(max_len).checked_sub(unpacked.len() as u64)?;
        reader.by_ref().take(left + 1).read_to_end(&mut unpacked).ok()?;
        if unpacked.len() as u64 > u64::from(max_len) {
            return Some(Unpacked::TooLong);
        }
        let data_len = data.len() - reader.into_inner().len();
        rest = data.get(data_len.next_multiple_of(4).checked_add(check_len)?..)?;
    }
}

/// Length of a block's checksum, bytes.
fn check_len(kind: u8) -> Option<usize> {
    const LEN: [usize; 6] = [0, 4, 8, 16, 32, 64];
    LEN.get(usize::from(kind).div_ceil(3)).copied().filter(|_| kind <= 15)
}

/// Length of the dictionary that a block needs, from the block's header.
fn dictionary_len(header: &[u8]) -> Option<u32> {
    let (&flags, mut fields) = header.get(1..)?.split_first()?;
    // Another bit is another filter, or a later format.
    if flags & !(PACKED_LEN | UNPACKED_LEN) != 0 {
        return None;
    }
    for given in [PACKED_LEN, UNPACKED_LEN] {
        if flags & given != 0 {
            number(&mut fields)?;
        }
    }
    let (LZMA2, 1) = (number(&mut fields)?, number(&mut fields)?) else { return None };
    match *fields.first()? {
        MAX_DICTIONARY => Some(u32::MAX),
        // 2 or 3, times a power of two.
        property if property < MAX_DICTIONARY => {
            Some((2 | u32::from(property) & 1) << (property / 2 + 11))
        }
        _ => None,
    }
}

/// Takes a number of one to nine bytes, seven bits each, the lowest first.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    const MAX_NUMBER_LEN: u32 = 9;
    let mut number = 0;
    for index in 0..MAX_NUMBER_LEN {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Option<Unpacked> {
        Some(Unpacked::All(bytes.to_vec()))
    }

    const TEXT: &[u8] = b"main worker main worker main worker main worker\n";

    /// Packs with the program `xz`, the reference.
    fn xz(arguments: &[&str], bytes: &[u8]) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plain");
        std::fs::write(&path, bytes).unwrap();
        let status = std::process::Command::new("xz").args(arguments).arg(&path).status();
        assert!(status.expect("this test needs the program xz").success());
        std::fs::read(dir.path().join("plain.xz")).unwrap()
    }

    #[test]
    fn what_xz_packs_is_unpacked() {
        let long: Vec<u8> = (0..300_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for check in ["none", "crc32", "crc64", "sha256"] {
            let check = format!("--check={check}");
            for bytes in [&b""[..], b"x", TEXT, &long] {
                for how in ["-1", "-9", "--block-size=100000"] {
                    let packed = xz(&[&check, how, "-T1"], bytes);
                    let unpacked = unpack(&packed, 2 << 20);
                    assert!(unpacked == all(bytes), "{check} {how} {}", bytes.len());
                }
            }
        }
        assert_eq!(unpack(&xz(&["--x86", "--lzma2"], TEXT), 2 << 20), None, "another filter");
    }

    #[test]
    fn the_limit_holds() {
        let packed = xz(&["-9"], &vec![7; 64 << 20]);
        assert!(packed.len() < 16 << 10, "{}", packed.len());
        assert_eq!(unpack(&packed, 1 << 20), Some(Unpacked::TooLong));
        let packed = xz(&["-9"], TEXT);
        let len = u32::try_from(TEXT.len()).unwrap();
        assert_eq!(unpack(&packed, len), all(TEXT));
        assert_eq!(unpack(&packed, len - 1), Some(Unpacked::TooLong));
        assert_eq!(unpack(&packed, 0), Some(Unpacked::TooLong));
    }

    #[test]
    fn damaged_data_is_refused() {
        let packed = xz(&["--check=crc32"], TEXT);
        for len in 0..packed.len() {
            let cut = unpack(&packed[..len], 1 << 20);
            assert!(cut.is_none() || cut == all(TEXT), "{len}");
        }
        for bit in 0..packed.len() * 8 {
            let mut damaged = packed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let _ = unpack(&damaged, 1 << 20);
        }
    }
}
