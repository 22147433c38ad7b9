//! Names this test program itself, whose mappings, code and expected names are all known.

use crate::support;
use std::hint::black_box;
use unhitch_model::{FrameId, ModuleKind, Trace};
use unhitch_symbols::{Options, Symbolizer};

mod workshop {
    /// Has code of its own.
    #[inline(never)]
    pub fn outline(n: u64) -> usize {
        std::hint::black_box(n + 1);
        inlined()
    }

    /// An address inside the function that it is inlined into: the return address of a call made
    /// here.
    #[inline(always)]
    fn inlined() -> usize {
        return_address()
    }

    #[inline(never)]
    fn return_address() -> usize {
        let mut text = String::new();
        std::fs::File::open("/proc/self/maps")
            .and_then(|mut maps| std::io::Read::read_to_string(&mut maps, &mut text))
            .unwrap();
        std::hint::black_box(text.len())
    }
}

/// Path and file offset of the code at `avma`, from our own maps.
fn locate(avma: u64) -> (String, u64) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    maps.lines()
        .find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (start, end) = fields[0].split_once('-').unwrap();
            let inside = (hex(start)..hex(end)).contains(&avma);
            inside.then(|| {
                (
                    (*fields.get(5).unwrap_or(&"[anon]")).to_owned(),
                    hex(fields[2]) + avma - hex(start),
                )
            })
        })
        .expect("mapped nowhere")
}

fn add(trace: &mut Trace, avma: u64) -> FrameId {
    let (path, offset) = locate(avma);
    support::add_frame(trace, &path, ModuleKind::File, &[], offset)
}

#[test]
fn own_functions_have_names_lines_and_inlined_functions() {
    black_box(workshop::outline(black_box(1)));
    let start = workshop::outline as fn(u64) -> usize as usize as u64;
    let mut trace = Trace::default();
    let frames: Vec<FrameId> = (0..48).map(|offset| add(&mut trace, start + offset)).collect();
    Symbolizer::new(Options::default()).resolve(&mut trace);

    assert_eq!(trace.frame_names(frames[0]), [concat!(module_path!(), "::workshop::outline")]);
    let symbol = trace.symbols.get(frames[0])[0];
    assert!(
        trace.name(symbol.file).ends_with("tests/own_binary.rs"),
        "{}",
        trace.name(symbol.file)
    );
    assert!((10..18).contains(&symbol.line), "{}", symbol.line);
    let all: Vec<Vec<String>> = frames.iter().map(|&frame| trace.frame_names(frame)).collect();
    // The workspace's line tables name inlined functions without their path; full debug information
    // would give it.
    let outline = concat!(module_path!(), "::workshop::outline");
    let is_inlined = |names: &Vec<String>| matches!(&names[..], [inner, outer] if inner.ends_with("inlined") && outer == outline);
    assert!(all.iter().any(is_inlined), "innermost first: {all:?}");
}

#[test]
fn libc_and_vdso_have_names() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains("/libc.so"))
        .expect("no libc");
    let libc = std::path::Path::new(path);
    let symbols = support::run("readelf", &["--dyn-syms", "-W", path]);
    let svma = symbols
        .lines()
        .find(|line| line.contains(" malloc@@"))
        .and_then(|line| line.split_whitespace().nth(1))
        .unwrap();
    let offset = support::file_offset(path, u64::from_str_radix(svma, 16).unwrap());
    let (names, _) = support::name(&mut Symbolizer::new(Options::default()), libc, &[], &[offset]);
    assert_eq!(names, [["malloc"]]);

    let mut trace = Trace::default();
    let frames: Vec<FrameId> = (0..0x2000)
        .step_by(16)
        .map(|offset| support::add_frame(&mut trace, "[vdso]", ModuleKind::File, &[], offset))
        .collect();
    Symbolizer::new(Options::default()).resolve(&mut trace);
    let names: Vec<String> = frames.iter().flat_map(|&frame| trace.frame_names(frame)).collect();
    assert!(names.iter().any(|name| name.contains("clock_gettime")), "{names:?}");
}

#[test]
fn live_kernel_frames_have_names() {
    let list = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let Some(avma) = list
        .lines()
        .find(|line| line.ends_with(" T schedule"))
        .and_then(|line| u64::from_str_radix(&line[..16], 16).ok())
    else {
        println!("skipped: no /proc/kallsyms here");
        return;
    };
    let mut trace = Trace::default();
    let frame = support::add_frame(&mut trace, "[kernel]", ModuleKind::Kernel, &[], avma);
    Symbolizer::new(Options::default()).resolve(&mut trace);
    if avma == 0 {
        println!("skipped: /proc/kallsyms shows no addresses to this user");
        assert!(trace.warnings.lines().any(|line| line.contains("kptr_restrict")));
    } else {
        assert_eq!(trace.frame_names(frame), ["schedule"]);
    }
}

#[test]
fn what_has_a_name_is_left_alone_and_anonymous_memory_without_a_map_is_no_warning() {
    let mut trace = Trace::default();
    let start = workshop::outline as fn(u64) -> usize as usize as u64;
    let frame = add(&mut trace, start);
    let function = trace.strings.intern("given");
    trace.symbols.set(frame, &[unhitch_model::Symbol { function, ..Default::default() }]);
    let jit = support::add_frame(
        &mut trace,
        "[anon]",
        ModuleKind::Anonymous { pid: 4_194_305 },
        &[],
        0x1000,
    );
    let heap = support::add_frame(&mut trace, "[heap]", ModuleKind::File, &[], 0x1000);
    Symbolizer::new(Options::default()).resolve(&mut trace);
    assert_eq!(trace.frame_names(frame), ["given"]);
    assert_eq!(trace.frame_names(jit), ["[anon]+0x1000"]);
    assert_eq!(trace.frame_names(heap), ["[heap]+0x1000"]);
    assert!(trace.warnings.is_empty(), "{:?}", trace.warnings);
}
