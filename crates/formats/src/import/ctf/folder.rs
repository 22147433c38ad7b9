//! Which files of a folder are a trace.

use std::path::{Path, PathBuf};

/// The name of the file that describes the others.
const METADATA: &str = "metadata";

/// The file `metadata` of a trace at `path`: a folder that has one, alone or in `kernel`, as in a
/// session of LTTng, or that file itself.
pub(crate) fn metadata_of(path: &Path) -> Option<PathBuf> {
    let places = match path.file_name().is_some_and(|name| name == METADATA) {
        true => vec![path.to_owned()],
        false => vec![path.join(METADATA), path.join("kernel").join(METADATA)],
    };
    places.into_iter().find(|file| {
        use std::io::Read;
        let mut start = Vec::new();
        std::fs::File::open(file)
            .and_then(|file| file.take(16).read_to_end(&mut start))
            .is_ok_and(|_| is_metadata(&start))
    })
}

/// True if `bytes` begin as the metadata of a trace do.
pub(crate) fn is_metadata(bytes: &[u8]) -> bool {
    bytes.starts_with(b"/* CTF 1.8") || bytes.starts_with(&0x75d1_1d57_u32.to_le_bytes())
}

/// The files of events next to the metadata, by name.
pub(crate) fn streams_of(metadata: &Path) -> Vec<PathBuf> {
    /// Maximum number of files.
    const MAX_FILES: usize = 4096;
    let folder = metadata.parent().unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .take(MAX_FILES)
        .map(|entry| entry.path())
        .filter(|path| path != metadata && path.is_file())
        .filter(|path| {
            // Hidden files and folders are other tools'.
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| !name.starts_with('.'))
        })
        .collect();
    files.sort();
    files
}
