//! Damaged files: wherever a file is truncated, whichever bit is wrong, naming never panics.

use crate::support::{compile, name, options};
use std::path::Path;
use unhitch_symbols::Symbolizer;

/// Frames all over the file, in and out of its code.
fn offsets(len: usize) -> Vec<u64> {
    let mut offsets: Vec<u64> = (0..len as u64).step_by(97).collect();
    offsets.extend([u64::MAX, u64::MAX / 2, len as u64]);
    offsets
}

/// Names the file anew, with `bytes` as its content.
fn name_damaged(dir: &Path, bytes: &[u8], offsets: &[u64]) {
    let path = dir.join("damaged");
    std::fs::write(&path, bytes).unwrap();
    let (names, warnings) = name(&mut Symbolizer::new(options(dir)), &path, &[], offsets);
    assert_eq!(names.len(), offsets.len());
    assert!(warnings.len() <= 2, "{warnings:?}");
}

#[test]
fn truncated_files() {
    let dir = tempfile::tempdir().unwrap();
    for flags in [&["-g", "-gz=none"][..], &["-g", "-gz=zlib"], &["-s"]] {
        let bytes = std::fs::read(compile(dir.path(), "whole", flags)).unwrap();
        let offsets = offsets(bytes.len());
        for len in (0..bytes.len().min(1024)).step_by(7).chain((1024..bytes.len()).step_by(211)) {
            name_damaged(dir.path(), &bytes[..len], &offsets);
        }
    }
}

#[test]
fn flipped_bits() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for (flags, flips) in
        [(&["-g", "-gz=none"][..], 1_000), (&["-g", "-gz=zlib"], 500), (&["-s"], 500)]
    {
        let mut bytes = std::fs::read(compile(dir.path(), "whole", flags)).unwrap();
        let offsets = offsets(bytes.len());
        for round in 0..flips {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Every other time in the headers: the file's, the segments' at its start, the
            // sections' at its end.
            let at = match round % 4 {
                0 => random as usize % 1024,
                1 => bytes.len() - 1 - random as usize % 2048,
                _ => random as usize % bytes.len(),
            };
            let bit = 1 << (random >> 61);
            bytes[at] ^= bit;
            name_damaged(dir.path(), &bytes, &offsets);
            bytes[at] ^= bit;
        }
    }
}
