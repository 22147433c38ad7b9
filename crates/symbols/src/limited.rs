//! Limits how much of an ELF file is read: its headers may claim tables of any length, and a sparse
//! file can back the claim.

use object::{ReadCache, ReadRef};
use std::cell::{Cell, RefCell};
use std::io::{Read, Seek};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of bytes that are read of one file's headers and tables. The symbol table of the
/// largest browsers has 100 MB.
const MAX_BYTES: u64 = 128 << 20;
/// Maximum number of bytes that are read of a file while another large file is being read.
const LARGE_BYTES: u64 = 8 << 20;

/// Held while a large file is read. Several at once could take more memory than a recorder may
/// have.
static LARGE: Mutex<()> = Mutex::new(());

/// A file, or an image in memory.
pub(crate) trait Image: Read + Seek + Send {}
impl<T: Read + Seek + Send> Image for T {}

/// A file of which at most [`MAX_BYTES`] are read.
pub(crate) struct Limited<I: Image> {
    cache: ReadCache<I>,
    taken: Cell<u64>,
    large: RefCell<Option<MutexGuard<'static, ()>>>,
}

impl<I: Image> Limited<I> {
    /// Wraps `image`. Reads nothing yet.
    pub(crate) fn new(image: I) -> Self {
        Self { cache: ReadCache::new(image), taken: Cell::new(0), large: RefCell::new(None) }
    }

    fn take(&self, bytes: u64) -> Result<(), ()> {
        let taken =
            self.taken.get().checked_add(bytes).filter(|&taken| taken <= MAX_BYTES).ok_or(())?;
        self.taken.set(taken);
        if taken > LARGE_BYTES {
            self.large
                .borrow_mut()
                .get_or_insert_with(|| LARGE.lock().unwrap_or_else(PoisonError::into_inner));
        }
        Ok(())
    }
}

impl<'a, I: Image> ReadRef<'a> for &'a Limited<I> {
    fn len(self) -> Result<u64, ()> {
        (&self.cache).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.take(size)?;
        (&self.cache).read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        (&self.cache).read_bytes_at_until(range, delimiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_claims_too_much_is_not_read() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100 << 30).unwrap();
        let limited = Limited::new(file);
        assert_eq!((&limited).read_bytes_at(0, 4), Ok(&[0; 4][..]));
        assert_eq!((&limited).read_bytes_at(0, 8 << 30), Err(()));
        assert_eq!((&limited).read_bytes_at(1 << 30, 1 << 20).map(<[u8]>::len), Ok(1 << 20));
    }
}
