//! Names small programs in all forms that occur: stripped, with separate debug
//! files, replaced, unlinked, damaged.

use crate::support;
use crate::support::{compile, name, options, place, run};
use std::path::{Path, PathBuf};
use unhitch_model::{Meta, ModuleKind, Trace};
use unhitch_symbols::Symbolizer;

fn names(dir: &Path, program: &Path, offsets: &[u64]) -> Vec<Vec<String>> {
    let (names, warnings) = name(&mut Symbolizer::new(options(dir)), program, &[], offsets);
    assert!(warnings.is_empty(), "{warnings:?}");
    names
}

/// Build id as bytes, from readelf.
fn build_id(program: &Path) -> Vec<u8> {
    let notes = run("readelf", &["-n", program.to_str().unwrap()]);
    let hex = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "))
        .expect("no build id")
        .trim();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// All names in `outer`, address by address.
fn outer_offsets(program: &Path) -> Vec<u64> {
    let outer = place(program, "outer");
    (outer.file_offset..outer.file_offset + outer.size).collect()
}

fn assert_names_outer(names: &[Vec<String>], with_inlined: bool) {
    assert!(
        names.iter().all(|names| names.last().is_some_and(|name| name == "outer")),
        "{names:?}"
    );
    assert_eq!(
        names.iter().any(|names| *names == ["inlined_add", "outer"]),
        with_inlined,
        "{names:?}"
    );
}

#[test]
fn functions_end_where_their_size_ends() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "sized", &["-falign-functions=64"]);
    let outer = place(&program, "outer");
    let end = outer.file_offset + outer.size;
    assert_ne!(end % 64, 0, "the test needs padding");
    let names = names(dir.path(), &program, &[outer.file_offset, end - 1, end]);
    assert_eq!(
        names,
        [vec!["outer".to_owned()], vec!["outer".to_owned()], vec![format!("sized+{end:#x}")]]
    );
}

/// A stripped file only names what it exports: code after a symbol without a size may belong to any
/// other function.
#[test]
fn symbols_without_a_size_name_nothing_in_a_stripped_file() {
    let dir = tempfile::tempdir().unwrap();
    let assembly = dir.path().join("bare.s");
    std::fs::write(
        &assembly,
        ".text\n.globl bare\nbare: nop\n nop\n.type private, @function\nprivate: nop\n ret\n.size private, .-private\n",
    )
    .unwrap();
    let flags = [assembly.to_str().unwrap(), "-rdynamic", "-Wl,--build-id"];
    let whole = compile(dir.path(), "whole", &flags);
    let bare = place(&whole, "bare").file_offset;
    let offsets = [bare, bare + 1, bare + 2];
    assert_eq!(names(dir.path(), &whole, &offsets), [["bare"], ["bare"], ["private"]]);

    let stripped = dir.path().join("stripped");
    run("strip", &["-o", stripped.to_str().unwrap(), whole.to_str().unwrap()]);
    let outer = place(&stripped, "outer").file_offset;
    assert_eq!(names(dir.path(), &stripped, &[outer]), [["outer"]]);
    let bare = place(&stripped, "bare").file_offset;
    let unnamed = |at: u64| vec![format!("stripped+{at:#x}")];
    assert_eq!(
        names(dir.path(), &stripped, &[bare, bare + 1, bare + 2]),
        [unnamed(bare), unnamed(bare + 1), unnamed(bare + 2)]
    );
}

#[test]
fn linkers_lay_segments_out_in_many_ways() {
    let dir = tempfile::tempdir().unwrap();
    let layouts = [
        &["-Wl,-Ttext-segment=0x600000", "-no-pie"][..],
        &["-Wl,-z,noseparate-code"],
        &["-Wl,-z,separate-code"],
        &["-Wl,-z,max-page-size=65536"],
        &["-static"],
    ];
    for flags in layouts {
        let program = compile(dir.path(), "segments", flags);
        assert_names_outer(&names(dir.path(), &program, &outer_offsets(&program)), false);
    }
}

/// Regression: mappings start on a page, segments need not. Code on the segment's first page is
/// then also found by offsets before the segment.
#[test]
fn segments_that_start_within_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "unaligned", &["-no-pie", "-Wl,-z,separate-code"]);
    let offsets = outer_offsets(&program);
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let mut bytes = std::fs::read(&program).unwrap();
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let headers = word(&bytes, 32) as usize;
    let text = (headers..).step_by(56).find(|&at| bytes[at..at + 5] == [1, 0, 0, 0, 5]).unwrap();
    // The segment now starts and ends inside `outer`: p_offset, p_vaddr, p_paddr, p_filesz,
    // p_memsz.
    let (start, len) = (word(&bytes, text + 8), word(&bytes, text + 32));
    assert!((start..start + len).contains(&first));
    let (cut, kept) = (first + 8 - start, last - first - 16);
    let moved = |field: usize| word(&bytes, text + field) + cut;
    for (field, value) in [(8, moved(8)), (16, moved(16)), (24, moved(24)), (32, kept), (40, kept)]
    {
        bytes[text + field..text + field + 8].copy_from_slice(&u64::to_le_bytes(value));
    }
    std::fs::write(&program, bytes).unwrap();
    assert_names_outer(&names(dir.path(), &program, &offsets), false);
}

#[test]
fn a_separate_debug_file_is_found_by_build_id_and_by_link() {
    let dir = tempfile::tempdir().unwrap();
    for (how, flags) in [
        ("id", "-Wl,--build-id=sha1"),
        ("link", "-Wl,--build-id=none"),
        ("compressed", "-Wl,--build-id=md5"),
    ] {
        let program = compile(
            dir.path(),
            how,
            &["-g", flags, if how == "compressed" { "-gz=zlib" } else { "-gz=none" }],
        );
        let offsets = outer_offsets(&program);
        let inside = program.to_str().unwrap();
        let whole = names(dir.path(), &program, &offsets);
        assert_names_outer(&whole, true);
        let debug: PathBuf = if how == "link" {
            dir.path().join("link.debug")
        } else {
            let id: String = build_id(&program).iter().map(|byte| format!("{byte:02x}")).collect();
            dir.path().join(format!("debug/.build-id/{}/{}.debug", &id[..2], &id[2..]))
        };
        std::fs::create_dir_all(debug.parent().unwrap()).unwrap();
        let debug = debug.to_str().unwrap();
        run("objcopy", &["--only-keep-debug", inside, debug]);
        run("objcopy", &["--strip-all", inside]);
        if how == "link" {
            run("objcopy", &[&format!("--add-gnu-debuglink={debug}"), inside]);
        }
        assert_eq!(names(dir.path(), &program, &offsets), whole, "{how}");
        // A debug file of another build must not be used.
        let mut bytes = std::fs::read(debug).unwrap();
        let at = if how == "link" {
            bytes.len() / 2
        } else {
            find(&bytes, &build_id(Path::new(inside)))
        };
        bytes[at] ^= 1;
        std::fs::write(debug, bytes).unwrap();
        let (others, warnings) =
            name(&mut Symbolizer::new(options(dir.path())), &program, &[], &offsets);
        assert!(
            others.iter().all(|names| names[0].starts_with(&format!("{how}+0x"))),
            "{how}: {others:?}"
        );
        assert_eq!(
            warnings,
            [format!(
                "no symbols for 1 module whose file is stripped and has no debug file: {how}"
            )]
        );
    }
}

fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).unwrap()
}

#[test]
fn stubs_are_named_after_what_they_call() {
    let dir = tempfile::tempdir().unwrap();
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: stubs are named on x86-64 only");
        return;
    }
    for flags in [
        &["-fcf-protection=full", "-Wl,-z,lazy"][..],
        &["-fcf-protection=none", "-Wl,-z,lazy"],
        &["-Wl,-z,now", "-fno-plt"],
        &["-fcf-protection=none", "-Wl,-z,now"],
    ] {
        let program = compile(dir.path(), "stubs", flags);
        run("objcopy", &["--strip-all", program.to_str().unwrap()]);
        let code = run(
            "objdump",
            &["-d", "-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got", program.to_str().unwrap()],
        );
        let stubs = code
            .lines()
            .filter_map(|line| line.split_once(" <puts@plt>:"))
            .map(|(svma, _)| u64::from_str_radix(svma, 16).unwrap());
        let stubs: Vec<u64> =
            stubs.map(|svma| support::file_offset(program.to_str().unwrap(), svma)).collect();
        assert_eq!(stubs.is_empty(), flags.contains(&"-fno-plt"), "{flags:?}");
        let (names, _) = name(&mut Symbolizer::new(options(dir.path())), &program, &[], &stubs);
        assert!(names.iter().all(|names| *names == ["puts@plt"]), "{flags:?}: {names:?}");
    }
}

#[test]
fn another_build_gives_no_names_and_one_warning() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "built", &["-Wl,--build-id=sha1"]);
    let offset = place(&program, "outer").file_offset;
    let id = build_id(&program);
    let mut symbolizer = Symbolizer::new(options(dir.path()));
    assert_eq!(name(&mut symbolizer, &program, &id, &[offset]).0, [["outer"]]);
    let mut padded = id.clone();
    padded.resize(24, 0);
    assert_eq!(name(&mut symbolizer, &program, &padded, &[offset]).0, [["outer"]]);
    let other: Vec<u8> = id.iter().map(|byte| !byte).collect();
    let (names, warnings) = name(&mut symbolizer, &program, &other, &[offset]);
    assert_eq!(names, [[format!("built+{offset:#x}")]]);
    assert_eq!(
        warnings,
        [
            "no symbols for 1 module whose file has been replaced by another build (the build ids differ): built"
        ]
    );

    // The kernel marks unlinked files; what lies at the path now counts only if it proves to be the
    // same.
    let unlinked = PathBuf::from(format!("{} (deleted)", program.display()));
    assert_eq!(name(&mut symbolizer, &unlinked, &id, &[offset]).0, [["outer"]]);
    let (_, warnings) = name(&mut symbolizer, &unlinked, &[], &[offset]);
    assert_eq!(
        warnings,
        ["no symbols for 1 module whose file is gone or cannot be read: built (deleted)"]
    );
}

#[test]
fn what_was_replaced_after_the_recording_gives_no_names_unless_its_build_id_proves_it() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "built", &["-Wl,--build-id=sha1"]);
    // A package's new file is as old as its build.
    let file = std::fs::File::options().write(true).open(&program).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let offset = place(&program, "outer").file_offset;
    for (id, names, warnings) in [
        (build_id(&program), ["outer".to_owned()], &[][..]),
        (
            Vec::new(),
            [format!("built+{offset:#x}")],
            &[
                "no symbols for 1 module whose file was written or replaced after the recording: built",
            ],
        ),
    ] {
        let mut trace =
            Trace { meta: Meta { epoch_ns: Some(0), ..Meta::default() }, ..Trace::default() };
        let frame = support::add_frame(
            &mut trace,
            program.to_str().unwrap(),
            ModuleKind::File,
            &id,
            offset,
        );
        Symbolizer::new(options(dir.path())).resolve(&mut trace);
        assert_eq!(trace.frame_names(frame), names);
        assert_eq!(trace.warnings.lines().collect::<Vec<_>>(), warnings);
    }
}

#[test]
fn a_file_that_changes_between_two_saves_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "changing", &[]);
    let offset = place(&program, "outer").file_offset;
    let mut symbolizer = Symbolizer::new(options(dir.path()));
    assert_eq!(name(&mut symbolizer, &program, &[], &[offset]).0, [["outer"]]);
    std::fs::remove_file(&program).unwrap();
    assert_eq!(
        name(&mut symbolizer, &program, &[], &[offset]).0,
        [[format!("changing+{offset:#x}")]]
    );
    let program = compile(dir.path(), "changing", &["-falign-functions=256", "-Douter=renamed"]);
    let offset = place(&program, "renamed").file_offset;
    assert_eq!(name(&mut symbolizer, &program, &[], &[offset]).0, [["renamed"]]);
}

#[test]
fn modules_without_symbols_share_one_warning() {
    let dir = tempfile::tempdir().unwrap();
    let mut trace = Trace::default();
    for index in 0..7 {
        support::add_frame(
            &mut trace,
            &format!("/nowhere/lib{index}.so"),
            ModuleKind::File,
            &[],
            0x1000,
        );
    }
    let text = dir.path().join("text.so");
    std::fs::write(&text, "no ELF").unwrap();
    support::add_frame(&mut trace, text.to_str().unwrap(), ModuleKind::File, &[], 0x1000);
    support::add_frame(&mut trace, "/dev/zero", ModuleKind::File, &[], 0x1000);
    Symbolizer::new(options(dir.path())).resolve(&mut trace);
    assert_eq!(
        trace.warnings.lines().collect::<Vec<_>>(),
        [
            "no symbols for 8 modules whose file is gone or cannot be read: lib0.so, lib1.so, lib2.so, lib3.so, lib4.so, …",
            "no symbols for 1 module whose file is damaged or not an ELF file: text.so"
        ]
    );
}

#[test]
fn kernel_and_jit_frames_have_names() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("kallsyms"),
        "ffffffff81000000 T do_sys_poll\nffffffffc0000000 t ext4_find\t[ext4]\n",
    )
    .unwrap();
    std::fs::write(dir.path().join("perf-77.map"), "7f0000 100 LazyCompile:~run app.js:3\n")
        .unwrap();
    let mut trace = Trace::default();
    let poll =
        support::add_frame(&mut trace, "[kernel]", ModuleKind::Kernel, &[], 0xffff_ffff_8100_0010);
    let ext4 =
        support::add_frame(&mut trace, "[ext4]", ModuleKind::Kernel, &[], 0xffff_ffff_c000_0010);
    let jit =
        support::add_frame(&mut trace, "[anon]", ModuleKind::Anonymous { pid: 77 }, &[], 0x7f_0080);
    let other =
        support::add_frame(&mut trace, "[anon]", ModuleKind::Anonymous { pid: 78 }, &[], 0x7f_0080);
    let mut etl = trace.clone();
    Symbolizer::new(options(dir.path())).resolve(&mut trace);
    assert_eq!(trace.frame_names(poll), ["do_sys_poll"]);
    assert_eq!(trace.frame_names(ext4), ["ext4_find [ext4]"]);
    assert_eq!(trace.frame_names(jit), ["run"]);
    assert_eq!(trace.frame_names(other), ["[anon]+0x7f0080"]);
    assert!(trace.warnings.is_empty(), "{:?}", trace.warnings);

    etl.meta.system = unhitch_model::System::Windows;
    Symbolizer::new(options(dir.path())).resolve(&mut etl);
    assert!(etl.symbols.is_empty(), "Windows addresses mean nothing here");
}

#[test]
fn hidden_kernel_addresses_are_explained_once() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("kallsyms"),
        "0000000000000000 T do_sys_poll\n0000000000000000 t ext4_find\t[ext4]\n",
    )
    .unwrap();
    let mut trace = Trace::default();
    for avma in [0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020] {
        support::add_frame(&mut trace, "[kernel]", ModuleKind::Kernel, &[], avma);
    }
    support::add_frame(&mut trace, "[ext4]", ModuleKind::Kernel, &[], 0xffff_ffff_c000_0010);
    Symbolizer::new(options(dir.path())).resolve(&mut trace);
    assert!(trace.symbols.is_empty());
    let warnings: Vec<String> = trace.warnings.lines().collect();
    assert!(
        warnings.len() == 1
            && warnings[0]
                .contains("sysctl -w kernel.kptr_restrict=0 kernel.perf_event_paranoid=1"),
        "{warnings:?}"
    );
}
