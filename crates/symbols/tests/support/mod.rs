//! Traces made of single frames, and small programs to name.

use std::path::{Path, PathBuf};
use std::process::Command;
use unhitch_model::{Frame, FrameId, Module, ModuleKind, Trace};
use unhitch_symbols::{Options, Symbolizer};

/// Nothing of this machine.
pub fn options(dir: &Path) -> Options {
    Options {
        debug_dirs: vec![dir.join("debug")],
        kallsyms: dir.join("kallsyms"),
        perf_map_dir: dir.to_owned(),
        ..Options::default()
    }
}

pub fn add_frame(
    trace: &mut Trace,
    path: &str,
    kind: ModuleKind,
    build_id: &[u8],
    offset: u64,
) -> FrameId {
    let path = trace.strings.intern(path);
    let module = trace.modules.intern(Module { path, kind, build_id: build_id.to_vec() });
    trace.stacks.intern_frame(Frame { module, offset })
}

/// What each file offset of the file prints, innermost function first, and the warnings.
pub fn name(
    symbolizer: &mut Symbolizer,
    path: &Path,
    build_id: &[u8],
    offsets: &[u64],
) -> (Vec<Vec<String>>, Vec<String>) {
    let mut trace = Trace::default();
    let frames: Vec<_> = offsets
        .iter()
        .map(|&offset| {
            add_frame(&mut trace, path.to_str().unwrap(), ModuleKind::File, build_id, offset)
        })
        .collect();
    symbolizer.resolve(&mut trace);
    (
        frames.iter().map(|&frame| trace.frame_names(frame)).collect(),
        trace.warnings.lines().collect(),
    )
}

pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| {
        panic!("{program} (binutils and a C compiler are needed): {error}")
    });
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A C program; `outer` holds `inlined_add` when compiled with -O2, and calls `puts` through a
/// stub.
pub fn compile(dir: &Path, file: &str, flags: &[&str]) -> PathBuf {
    const SOURCE: &str = "#include <stdio.h>\n\
        volatile int sink;\n\
        static inline __attribute__((always_inline)) void inlined_add(int n) {\n  for (int i = 0; i < n; i++)\n    sink += i * n;\n}\n\
        __attribute__((noinline)) int outer(int n) {\n  inlined_add(n);\n  puts(\"outer\");\n  return sink;\n}\n\
        int main(int argc, char **argv) {\n  return outer(argc) + outer(argc + 1);\n}\n";
    let source = dir.join("program.c");
    std::fs::write(&source, SOURCE).unwrap();
    let program = dir.join(file);
    let mut arguments = vec![source.to_str().unwrap(), "-o", program.to_str().unwrap(), "-O2"];
    arguments.extend_from_slice(flags);
    run("cc", &arguments);
    program
}

/// Value and size of a symbol, as readelf prints them, and the file offset of that value.
pub struct Place {
    pub file_offset: u64,
    pub size: u64,
}

pub fn place(program: &Path, symbol: &str) -> Place {
    let program = program.to_str().unwrap();
    let symbols = run("readelf", &["-sW", program]);
    let line = symbols
        .lines()
        .find(|line| line.split_whitespace().nth(7) == Some(symbol))
        .unwrap_or_else(|| panic!("no {symbol} in {symbols}"));
    let fields: Vec<&str> = line.split_whitespace().collect();
    let svma = u64::from_str_radix(fields[1], 16).unwrap();
    Place { file_offset: file_offset(program, svma), size: fields[2].parse().unwrap() }
}

/// By the section headers, where the crate goes by the program headers.
pub fn file_offset(program: &str, svma: u64) -> u64 {
    let sections = run("readelf", &["-SW", program]);
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let containing = sections.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_once(']')?.1.split_whitespace().collect();
        (fields.len() > 6 && fields[1] == "PROGBITS")
            .then(|| (hex(fields[2]), hex(fields[3]), hex(fields[4])))
    });
    let (start, offset, _) = containing
        .clone()
        .find(|&(start, _, size)| (start..start + size).contains(&svma))
        .expect("in no section");
    svma - start + offset
}
