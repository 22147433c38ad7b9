//! [`Paths`]: converts the kernel's paths to those that users know (`\Device\HarddiskVolume2\x` to
//! `C:\x`), and names file objects.

use super::{buffer::pointer_at, clock::utf16_z, hook, kernel, rows::Naming};
use rustc_hash::FxHashMap;
use unhitch_model::{NameId, Strings, Value};

/// Maximum number of volumes, each of which is compared with every path. Machines have a few dozen.
const MAX_VOLUMES: usize = 256;

/// The trace's volumes and files.
#[derive(Default)]
pub(super) struct Paths {
    /// Prefixes of kernel paths and the users' form of them, longest first.
    volumes: Vec<(String, String)>,
    /// By file object: its names, each with the time from which it holds.
    files: FxHashMap<u64, Vec<(i64, NameId)>>,
}

impl Paths {
    /// Reads the naming events, which must be by time.
    pub(super) fn new(naming: &[Naming], pointer_bytes: u8, strings: &mut Strings) -> Self {
        let mut paths = Self::default();
        for event in naming.iter().filter(|event| event.hook == hook::VOLUME_MAPPING) {
            let layout = kernel::layout(event.hook, event.version, pointer_bytes, strings);
            let mut texts = Vec::new();
            layout.read(&event.payload, |_, value| {
                if let Value::Text(text) = value {
                    texts.push(text.to_string());
                }
            });
            if let [nt, dos] = texts.as_slice()
                && !nt.is_empty()
                && paths.volumes.len() < MAX_VOLUMES
                && !paths.volumes.iter().any(|(known, _)| known == nt)
            {
                paths.volumes.push((nt.clone(), dos.clone()));
            }
        }
        // Network shares.
        paths.volumes.push(("\\Device\\Mup\\".to_owned(), "\\\\".to_owned()));
        if let Some(windows) = paths.windows(naming) {
            // Windows 8 writes paths in its own folder without the volume.
            paths.volumes.push((windows.get(2..).unwrap_or_default().to_owned(), windows));
        }
        paths.volumes.sort_by_key(|(nt, _)| std::cmp::Reverse(nt.len()));
        let pointer_bytes = usize::from(pointer_bytes);
        for event in naming.iter().filter(|event| hook::FILE_NAMES.contains(&event.hook)) {
            let Some(key) = pointer_at(&event.payload, 0, pointer_bytes) else { continue };
            let name = utf16_z(event.payload.get(pointer_bytes..).unwrap_or_default()).0;
            let name = strings.intern(&paths.dos(&name));
            let names = paths.files.entry(key).or_default();
            if names.last().is_none_or(|(_, last)| *last != name) {
                names.push((event.ticks, name));
            }
        }
        paths
    }

    /// The folder of Windows, e.g. `C:\Windows\`.
    fn windows(&self, naming: &[Naming]) -> Option<String> {
        let event = naming.iter().find(|event| event.hook == hook::SYSTEM_PATHS)?;
        let (_, rest) = utf16_z(&event.payload);
        let windows = utf16_z(rest).0;
        (windows.len() > 4 && windows.get(1..3) == Some(":\\") && windows.ends_with('\\'))
            .then_some(windows)
    }

    /// Converts a kernel path to the form that users know.
    pub(super) fn dos(&self, path: &str) -> String {
        let volume = self.volumes.iter().find_map(|(nt, dos)| {
            Some((path.get(..nt.len())?.eq_ignore_ascii_case(nt).then_some(nt)?, dos))
        });
        match volume {
            Some((nt, dos)) => format!("{dos}{}", path.get(nt.len()..).unwrap_or_default()),
            None => path.to_owned(),
        }
    }

    /// The name of a file object at a time: the last one it got by then, else the first.
    pub(super) fn file(&self, key: u64, ticks: i64) -> Option<NameId> {
        let names = self.files.get(&key)?;
        let next = names.partition_point(|(from, _)| *from <= ticks);
        names.get(next.saturating_sub(1)).map(|(_, name)| *name)
    }
}
