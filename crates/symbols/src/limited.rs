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

/// Memory that a string takes in the cache beside its bytes, estimated.
const STRING_BYTES: u64 = 64;

/// Held while a large file is read. Several at once could take more memory than a recorder may
/// have.
static LARGE: Mutex<()> = Mutex::new(());

/// Proof that no other large file is being read.
pub(crate) type Alone = MutexGuard<'static, ()>;

/// Waits until no large file is being read, and keeps others from being read meanwhile.
pub(crate) fn alone() -> Alone {
    LARGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file, or an image in memory.
pub(crate) trait Image: Read + Seek + Send {}
impl<T: Read + Seek + Send> Image for T {}

/// A file of which at most [`MAX_BYTES`] are read.
pub(crate) struct Limited<I: Image> {
    cache: ReadCache<I>,
    taken: Cell<u64>,
    /// True if its reader keeps others from being read.
    is_alone: bool,
    large: RefCell<Option<Alone>>,
}

impl<I: Image> Limited<I> {
    /// Wraps `image`. Reads nothing yet.
    pub(crate) fn new(image: I) -> Self {
        let (cache, taken, large) = (ReadCache::new(image), Cell::new(0), RefCell::new(None));
        Self { cache, taken, is_alone: false, large }
    }

    /// Wraps an `image` that is read while others are not.
    pub(crate) fn new_alone(image: I, _alone: &Alone) -> Self {
        Self { is_alone: true, ..Self::new(image) }
    }

    fn take(&self, bytes: u64) -> Result<(), ()> {
        let taken =
            self.taken.get().checked_add(bytes).filter(|&taken| taken <= MAX_BYTES).ok_or(())?;
        self.taken.set(taken);
        if taken > LARGE_BYTES && !self.is_alone {
            self.large.borrow_mut().get_or_insert_with(alone);
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
        self.take(STRING_BYTES)?;
        let string = (&self.cache).read_bytes_at_until(range, delimiter)?;
        self.take(string.len() as u64)?;
        Ok(string)
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

    #[test]
    fn regression_strings_count_too() {
        let string = [vec![b'x'; 4000], vec![0]].concat();
        let end = string.len() as u64;
        let limited = Limited::new(std::io::Cursor::new(string));
        let mut reads = (0..MAX_BYTES / 4000).map(|_| (&limited).read_bytes_at_until(0..end, 0));
        assert!(reads.any(|read| read.is_err()), "as much was read as there are section headers");
    }

    #[test]
    fn a_large_file_is_read_while_others_are_not() {
        let held = alone();
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * LARGE_BYTES).unwrap();
        let limited = Limited::new_alone(file, &held);
        // This would wait for itself.
        assert!((&limited).read_bytes_at(0, 2 * LARGE_BYTES).is_ok());
    }
}
