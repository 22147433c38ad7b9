//! Reads the code of small programs, of a made `/proc/kcore` and of a made kernel image.

use crate::support::{add_frame, compile, place, run};
use std::path::{Path, PathBuf};
use unhitch_model::{FrameId, Meta, ModuleKind, Symbol, Trace};
use unhitch_symbols::{Code, CodeOptions, Isa, NoCode, code, disassemble};

/// Nothing of this machine.
fn options(dir: &Path) -> CodeOptions {
    CodeOptions {
        debug_dirs: vec![dir.join("debug")],
        kallsyms: dir.join("kallsyms"),
        kcore: dir.join("kcore"),
        opened_kcore: None,
        kernel_image: None,
    }
}

fn code_at(trace: &Trace, frame: FrameId, options: &CodeOptions) -> Result<Code, NoCode> {
    let frame = trace.stacks.frame(frame).unwrap();
    code(trace, frame.module, frame.offset..frame.offset + 1, options)
}

fn file_code(program: &Path, build_id: &[u8], offset: u64, meta: Meta) -> Result<Code, NoCode> {
    let mut trace = Trace { meta, ..Trace::default() };
    let frame =
        add_frame(&mut trace, program.to_str().unwrap(), ModuleKind::File, build_id, offset);
    code_at(&trace, frame, &options(program.parent().unwrap()))
}

/// The mnemonics of `outer`, as objdump has them.
fn objdump(program: &Path, symbol: &str) -> Vec<(u64, String)> {
    let dump = run(
        "objdump",
        &[
            "-d",
            "--no-show-raw-insn",
            &format!("--disassemble={symbol}"),
            program.to_str().unwrap(),
        ],
    );
    let line = |line: &str| {
        let (address, text) = line.split_once(":\t")?;
        Some((
            u64::from_str_radix(address.trim(), 16).ok()?,
            text.split_whitespace().next()?.to_owned(),
        ))
    };
    dump.lines().filter_map(line).collect()
}

fn decoded(code: &Code) -> Vec<(u64, String)> {
    let instructions = disassemble(code, &[]).unwrap();
    instructions
        .iter()
        .map(|line| (line.address, line.text.split_whitespace().next().unwrap().to_owned()))
        .collect()
}

#[test]
fn a_function_is_read_whole_and_disassembled_as_objdump_does() {
    let dir = tempfile::tempdir().unwrap();
    for flags in [&["-no-pie"][..], &["-pie", "-fPIE"]] {
        let program = compile(dir.path(), "program", flags);
        let outer = place(&program, "outer");
        let code = file_code(&program, &[], outer.file_offset + 3, Meta::default()).unwrap();
        assert_eq!(
            (code.start, code.bytes.len() as u64, code.is_function),
            (outer.file_offset, outer.size, true)
        );
        assert!(code.doubt.is_some(), "no build id was recorded");
        if cfg!(target_arch = "x86_64") {
            assert_eq!(code.isa, Isa::X86 { bits: 64 });
            let (ours, theirs) = (decoded(&code), objdump(&program, "outer"));
            let addresses =
                |lines: &[(u64, String)]| lines.iter().map(|line| line.0).collect::<Vec<_>>();
            assert_eq!(addresses(&ours), addresses(&theirs));
            // objdump writes some with a suffix: `call` and `callq`.
            assert!(
                ours.iter()
                    .zip(&theirs)
                    .all(|(ours, theirs)| theirs.1.starts_with(&ours.1)
                        || ours.1.starts_with(&theirs.1)),
                "{ours:?}"
            );
        }
    }
}

#[test]
fn a_stripped_function_ends_where_its_unwind_entry_does() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "program", &["-fasynchronous-unwind-tables"]);
    let outer = place(&program, "outer");
    run("strip", &[program.to_str().unwrap()]);
    let code = file_code(&program, &[], outer.file_offset + 3, Meta::default()).unwrap();
    assert_eq!(
        (code.start, code.bytes.len() as u64, code.is_function),
        (outer.file_offset, outer.size, true)
    );
}

#[test]
fn code_that_may_not_be_what_ran_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "program", &["-Wl,--build-id=0x0102030405"]);
    let offset = place(&program, "outer").file_offset;
    let proven = file_code(
        &program,
        &[1, 2, 3, 4, 5],
        offset,
        Meta { epoch_ns: Some(0), ..Meta::default() },
    )
    .unwrap();
    assert_eq!(proven.doubt, None);
    assert!(matches!(
        file_code(&program, &[1, 2, 3, 4, 6], offset, Meta::default()),
        Err(NoCode::OtherBuild { .. })
    ));
    let long_ago = file_code(&program, &[], offset, Meta { epoch_ns: Some(0), ..Meta::default() })
        .unwrap_err();
    assert!(
        long_ago.to_string().ends_with(
            "is not the file that was recorded: it was written or replaced after the recording"
        ),
        "{long_ago}"
    );
    assert!(matches!(
        file_code(&dir.path().join("gone"), &[], 0, Meta::default()),
        Err(NoCode::Unreadable(_))
    ));
    assert!(matches!(
        file_code(&dir.path().join("program.c"), &[], 0, Meta::default()),
        Err(NoCode::Damaged(_))
    ));
    assert!(matches!(
        file_code(&program, &[], u64::MAX - 1, Meta::default()),
        Err(NoCode::Damaged(_))
    ));
    let mut trace = Trace::default();
    let jit = add_frame(&mut trace, "[anon]", ModuleKind::Anonymous { pid: 1 }, &[], 0x1000);
    assert_eq!(code_at(&trace, jit, &options(dir.path())), Err(NoCode::Anonymous));
}

const LOADED_AVMA: u64 = 0xffff_ffff_8100_0000;
/// `1: inc %rax; jmp 1b`, twice, apart.
const KERNEL_CODE: [u8; 12] =
    [0x48, 0xff, 0xc0, 0xeb, 0xfb, 0xcc, 0x48, 0xff, 0xc0, 0xeb, 0xfb, 0xcc];

/// An ELF core file with one segment, as the kernel writes them.
fn kcore(dir: &Path) -> (PathBuf, Vec<u8>) {
    let mut core = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    core.extend([4_u16, 62].iter().flat_map(|value| value.to_le_bytes()));
    core.extend(1_u32.to_le_bytes());
    core.extend([0_u64, 64, 0].iter().flat_map(|value| value.to_le_bytes()));
    core.extend(0_u32.to_le_bytes());
    core.extend([64_u16, 56, 1, 0, 0, 0].iter().flat_map(|value| value.to_le_bytes()));
    core.extend([1_u32, 7].iter().flat_map(|value| value.to_le_bytes()));
    let len = KERNEL_CODE.len() as u64;
    core.extend(
        [0x1000, LOADED_AVMA, 0, len, len, 0x1000]
            .iter()
            .flat_map(|value: &u64| value.to_le_bytes()),
    );
    core.resize(0x1000, 0);
    core.extend(KERNEL_CODE);
    let path = dir.join("kcore");
    std::fs::write(&path, &core).unwrap();
    (path, core)
}

fn kernel_code(dir: &Path, avma: u64) -> Result<Code, NoCode> {
    let mut trace = Trace::default();
    let frame = add_frame(&mut trace, "[kernel]", ModuleKind::Kernel, &[], avma);
    code_at(&trace, frame, &options(dir))
}

#[test]
fn kernel_code_is_read_from_its_memory() {
    let dir = tempfile::tempdir().unwrap();
    let missing = kernel_code(dir.path(), LOADED_AVMA).unwrap_err();
    assert!(
        missing.to_string().contains(
            "that needs root and a kernel with CONFIG_PROC_KCORE; or name the recorded kernel with"
        ),
        "{missing}"
    );
    let (path, core) = kcore(dir.path());
    let raw = kernel_code(dir.path(), LOADED_AVMA + 6).unwrap();
    assert_eq!(
        (raw.start, &raw.bytes[..], raw.is_function),
        (LOADED_AVMA, &KERNEL_CODE[..], false),
        "no symbols: what there is"
    );
    std::fs::write(
        dir.path().join("kallsyms"),
        "ffffffff81000000 T spin\nffffffff81000006 t spin_again\nffffffff8100000c T end\n",
    )
    .unwrap();
    let code = kernel_code(dir.path(), LOADED_AVMA + 6).unwrap();
    assert_eq!(
        (code.start, code.start_address, code.isa),
        (LOADED_AVMA + 6, LOADED_AVMA + 6, Isa::X86 { bits: 64 })
    );
    assert_eq!((&code.bytes[..], code.is_function), (&KERNEL_CODE[6..], true));
    assert!(
        matches!(kernel_code(dir.path(), LOADED_AVMA + 0x1000), Err(NoCode::NoKcore { .. })),
        "no segment there"
    );
    for len in 0..core.len() {
        std::fs::write(&path, &core[..len]).unwrap();
        let _ = kernel_code(dir.path(), LOADED_AVMA + 6);
    }
}

#[test]
fn a_kernel_image_is_placed_by_the_names_that_were_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let image = compile(dir.path(), "vmlinux", &["-no-pie", "-Wl,--build-id=0x0102030405"]);
    let outer = place(&image, "outer");
    let svma = objdump(&image, "outer")[0].0;
    let main = objdump(&image, "main")[0].0;
    let options = CodeOptions { kernel_image: Some(image.clone()), ..options(dir.path()) };
    let trace = |build_id: &[u8], names: [(&str, u64); 2]| {
        let mut trace = Trace {
            meta: Meta { host: "elsewhere".into(), ..Meta::default() },
            ..Trace::default()
        };
        let frames = names.map(|(name, avma)| {
            let frame = add_frame(&mut trace, "[kernel]", ModuleKind::Kernel, build_id, avma);
            let function = trace.strings.intern(name);
            trace.symbols.set(frame, &[Symbol { function, ..Symbol::default() }]);
            frame
        });
        (trace, frames[0])
    };
    let moved = 7 * (2 << 20);
    let (fits, frame) =
        trace(&[1, 2, 3, 4, 5], [("outer", svma + moved + 4), ("main", main + moved + 1)]);
    let code = code_at(&fits, frame, &options).unwrap();
    assert_eq!(
        (code.start, code.bytes.len() as u64, code.is_function),
        (svma + moved, outer.size, true)
    );
    assert!(code.doubt.unwrap().contains("as linked"));
    let elsewhere =
        code_at(&fits, frame, &CodeOptions { kernel_image: None, ..options.clone() }).unwrap_err();
    assert!(
        elsewhere
            .to_string()
            .contains("another machine; name the recorded kernel with --kernel-image"),
        "{elsewhere}"
    );

    let how = |build_id: &[u8], names| {
        let (trace, frame) = trace(build_id, names);
        code_at(&trace, frame, &options).unwrap_err().to_string()
    };
    assert!(how(&[9], [("outer", svma + 4), ("main", main)]).ends_with("the build ids differ"));
    let not_there = how(&[], [("outer", svma + moved + 0x10_0000), ("main", main + 0x8_0000)]);
    assert!(
        not_there.ends_with("its functions are not where the recorded ones were"),
        "{not_there}"
    );
}
