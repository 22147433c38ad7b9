//! Files that were compressed as a whole, as Perfetto's are when they are passed on.

use super::unpack::Budget;
use crate::Error;

/// True if `bytes` begin as gzip does.
pub(super) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b, 8])
}

/// The content. Parts of it that are packed again are unpacked within the same budget.
pub(super) fn unpack(bytes: &[u8], budget: &mut Budget) -> Result<Vec<u8>, Error> {
    budget.gzip(bytes).ok_or_else(|| {
        Error::Unsupported(
            "this file is compressed by gzip, and damaged or too large: unpack it first".to_owned(),
        )
    })
}

/// The beginning of the content, in which no second file is that was compressed.
pub(super) fn begin(head: &[u8]) -> Option<Vec<u8>> {
    use std::io::Read;
    /// Enough to recognise a format by, bytes.
    const ENOUGH: u64 = 64 << 10;
    let mut content = Vec::new();
    // The end is missing, which is no damage here.
    let _ended = flate2::bufread::GzDecoder::new(head).take(ENOUGH).read_to_end(&mut content);
    (!is_gzip(&content) && !content.is_empty()).then_some(content)
}
