//! Reads the vdso: the small ELF file that the kernel maps into every process, and that is not on
//! disk.
//!
//! Format: `proc_pid_maps(5)` and `proc_pid_mem(5)`. *Why from this process*: all processes of one
//! kernel have the same image, and a process can always read its own.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::OnceLock;

/// Its path in a process's maps.
pub(crate) const NAME: &str = "[vdso]";
/// Maximum number of bytes that are read. Real ones have two pages.
const MAX_BYTES: u64 = 1 << 20;

/// The image mapped into this process. It is read once, so that it is still there after the process
/// gave up its rights.
pub(crate) fn image() -> io::Result<&'static [u8]> {
    static IMAGE: OnceLock<io::Result<Vec<u8>>> = OnceLock::new();
    IMAGE.get_or_init(read).as_deref().map_err(|error| error.kind().into())
}

fn read() -> io::Result<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let (start_avma, end_avma) = maps.lines().find_map(range).ok_or(io::ErrorKind::NotFound)?;
    let mut memory = File::open("/proc/self/mem")?;
    memory.seek(SeekFrom::Start(start_avma))?;
    let mut image = Vec::new();
    memory.take(end_avma.saturating_sub(start_avma).min(MAX_BYTES)).read_to_end(&mut image)?;
    Ok(image)
}

fn range(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.strip_suffix(NAME)?.split(' ').next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn live_vdso_has_functions() {
        let elf = crate::elf::Elf::read(std::io::Cursor::new(super::image().unwrap())).unwrap();
        assert!(!elf.is_nameless());
    }
}
