//! A file system with one file, served by a user process, that stops answering on request
//! (`include/uapi/linux/fuse.h`).

use std::fs::File;
use std::io::{self, Read, Write};

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const BATCH_FORGET: u32 = 42;
const ROOT: u64 = 1;
const FILE: u64 = 2;
/// The name of the one file.
pub const FILE_NAME: &str = "file";
/// Looking up this name silences the file system.
pub const SILENCE: &str = "silence";

/// Serves `content` on the FUSE device `device` until it is silenced; then keeps it open without
/// answering.
pub fn serve(mut device: File, content: &[u8]) -> io::Result<()> {
    let mut request = vec![0; 1 << 20];
    let mut silenced = false;
    loop {
        let len = device.read(&mut request)?;
        let request = &request[..len];
        let (opcode, unique, node) = (word(request, 4), long(request, 8), long(request, 16));
        let body = request.get(40..).unwrap_or_default();
        // A request that was read cannot be cancelled, not even by SIGKILL.
        if !silenced && !matches!(opcode, FORGET | BATCH_FORGET) {
            let (error, answer) = match reply(opcode, node, body, content) {
                Ok(answer) => (0, answer),
                Err(errno) => (-errno, Vec::new()),
            };
            let mut out = Vec::new();
            out.extend((16 + answer.len() as u32).to_le_bytes());
            out.extend(error.to_le_bytes());
            out.extend(unique.to_le_bytes());
            out.extend(answer);
            device.write_all(&out)?;
        }
        silenced |= opcode == LOOKUP && body.starts_with(SILENCE.as_bytes());
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The body of the answer, or an errno.
fn reply(opcode: u32, node: u64, body: &[u8], content: &[u8]) -> Result<Vec<u8>, i32> {
    match opcode {
        // Version 7.31, no read-ahead, no flags, 16 requests at once, writes of a page.
        INIT => Ok(words(&[7, 31, 0, 0, 16 << 16 | 16, 4096, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0])),
        LOOKUP if body.strip_suffix(b"\0") == Some(FILE_NAME.as_bytes()) => {
            // Node, generation; nothing may be cached.
            let mut entry = words(&[FILE as u32, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            entry.extend(attributes(FILE, content.len()));
            Ok(entry)
        }
        LOOKUP => Err(libc::ENOENT),
        GETATTR => {
            let mut answer = words(&[0; 4]);
            answer.extend(attributes(node, content.len()));
            Ok(answer)
        }
        OPEN | OPENDIR => Ok(words(&[0; 4])),
        READ => {
            let start = (long(body, 8) as usize).min(content.len());
            let end = (start + word(body, 16) as usize).min(content.len());
            Ok(content[start..end].to_vec())
        }
        FLUSH | RELEASE => Ok(Vec::new()),
        _ => Err(libc::ENOSYS),
    }
}

fn attributes(node: u64, len: usize) -> Vec<u8> {
    let mode = if node == ROOT { libc::S_IFDIR | 0o755 } else { libc::S_IFREG | 0o755 };
    let mut out = Vec::new();
    for long in [node, len as u64, len.div_ceil(512) as u64, 0, 0, 0] {
        out.extend(long.to_le_bytes());
    }
    // Nanoseconds, mode, links, owner, device, block size, flags.
    out.extend(words(&[0, 0, 0, mode, 1, crate::harness::USER, crate::harness::USER, 0, 4096, 0]));
    out
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
