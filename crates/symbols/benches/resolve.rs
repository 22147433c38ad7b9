//! How long a save spends on names, cold (tables read) and warm (names remembered): `cargo bench -p
//! unhitch-symbols [-- FILE…]`. The frames are spread over each whole file, so that many are no
//! code and have no name; without files it names this program and its libraries.

use std::time::Instant;
use unhitch_model::{Frame, Module, ModuleKind, Trace};
use unhitch_symbols::{Options, Symbolizer};

const FRAMES: u64 = 10_000;

fn main() {
    let mut files: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if files.is_empty() {
        files = own_files();
    }
    let spread = |path: &str| spread(path, FRAMES / files.len() as u64);
    let frames: Vec<(String, ModuleKind, u64)> = files
        .iter()
        .flat_map(|path| spread(path).map(|offset| (path.clone(), ModuleKind::File, offset)))
        .collect();
    measure("all files", &frames);
    for path in &files {
        let of_file: Vec<_> = frames.iter().filter(|frame| frame.0 == *path).cloned().collect();
        measure(path, &of_file);
    }
    let kernel: Vec<_> = (0..2_000)
        .map(|index| {
            ("[kernel]".to_owned(), ModuleKind::Kernel, 0xffff_ffff_8100_0000 + index * 4096)
        })
        .collect();
    measure("kernel", &kernel);
}

/// This program and the libraries that it has mapped.
fn own_files() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut files: Vec<String> = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .filter(|path| path.starts_with('/'))
        .map(str::to_owned)
        .collect();
    files.dedup();
    files
}

/// Evenly spread offsets, shuffled a little so that neighbours are not asked one after the other.
fn spread(path: &str, count: u64) -> impl Iterator<Item = u64> + use<> {
    let len = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    (0..count).map(move |index| index * 7919 % count * (len / count.max(1)))
}

fn measure(what: &str, frames: &[(String, ModuleKind, u64)]) {
    let mut symbolizer = Symbolizer::new(Options::default());
    for how in ["cold", "warm"] {
        let mut trace = Trace::default();
        for (path, kind, offset) in frames {
            let path = trace.strings.intern(path);
            let module = trace.modules.intern(Module { path, kind: *kind, build_id: Vec::new() });
            trace.stacks.intern_frame(Frame { module, offset: *offset });
        }
        let count = trace.stacks.frames().len();
        let start = Instant::now();
        symbolizer.resolve(&mut trace);
        let elapsed = start.elapsed();
        let named = (0..count as u32)
            .filter(|&id| !trace.symbols.get(unhitch_model::FrameId(id)).is_empty())
            .count();
        println!(
            "{how} {:8.1} ms, {count} frames, {named} named: {what}",
            elapsed.as_secs_f64() * 1e3
        );
        for line in trace.warnings.lines() {
            println!("     {line}");
        }
    }
}
