//! Names stripped programs: from `.gnu_debugdata`, from Go's own table, or not at all. Needs
//! binutils, a C compiler and `xz`; one test uses Go where it is installed.

use crate::support::{compile, file_offset, name, options, place, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use unhitch_symbols::Symbolizer;

fn named(dir: &Path, program: &Path, offsets: &[u64]) -> (Vec<Vec<String>>, Vec<String>) {
    name(&mut Symbolizer::new(options(dir)), program, &[], offsets)
}

/// Packs the symbols of `program` that are not dynamic, as Fedora's packages do, and strips it.
fn strip_to_mini_debug_info(dir: &Path, program: &Path) -> PathBuf {
    let at = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let whole = program.to_str().unwrap();
    let functions = |kind| {
        let list = run("nm", &[kind, "--format=posix", "--defined-only", whole]);
        let functions = list.lines().filter_map(|line| {
            let (name, rest) = line.split_once(' ')?;
            rest.starts_with(['T', 't', 'D']).then(|| name.to_owned())
        });
        functions.collect::<Vec<_>>()
    };
    let dynamic = functions("-D");
    let kept: Vec<String> =
        functions("-a").into_iter().filter(|name| !dynamic.contains(name)).collect();
    fs::write(at("kept"), kept.join("\n")).unwrap();
    run("objcopy", &["--only-keep-debug", whole, &at("debug_only")]);
    let keep = format!("--keep-symbols={}", at("kept"));
    run("objcopy", &["-S", "--remove-section=.comment", &keep, &at("debug_only"), &at("mini")]);
    let stripped = program.with_extension("stripped");
    run("strip", &["-o", stripped.to_str().unwrap(), whole]);
    run("xz", &["-f", &at("mini")]);
    let section = format!(".gnu_debugdata={}", at("mini.xz"));
    run("objcopy", &["--add-section", &section, stripped.to_str().unwrap()]);
    stripped
}

#[test]
fn mini_debug_info_names_what_is_not_exported() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "whole", &["-g", "-falign-functions=64"]);
    let (main, outer) = (place(&program, "main"), place(&program, "outer"));
    let end = outer.file_offset + outer.size;
    let offsets = [main.file_offset, outer.file_offset, end - 1, end];
    let stripped = strip_to_mini_debug_info(dir.path(), &program);
    let (names, warnings) = named(dir.path(), &stripped, &offsets);
    let behind = format!("whole.stripped+{end:#x}");
    assert_eq!(names, [["main"], ["outer"], ["outer"], [behind.as_str()]]);
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn damaged_mini_debug_info_names_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "whole", &[]);
    let outer = place(&program, "outer").file_offset;
    let stripped = strip_to_mini_debug_info(dir.path(), &program);
    let whole = fs::read(&stripped).unwrap();
    let packed = fs::read(dir.path().join("mini.xz")).unwrap();
    let at = whole.windows(packed.len()).position(|part| part == packed).unwrap();
    for damaged in (0..packed.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at + damaged] ^= 0x10;
        fs::write(&stripped, bytes).unwrap();
        let (names, _) = named(dir.path(), &stripped, &[outer]);
        assert_eq!(names[0].len(), 1);
    }
    let mut bytes = whole.clone();
    bytes[at..at + 6].fill(0);
    fs::write(&stripped, bytes).unwrap();
    let (names, warnings) = named(dir.path(), &stripped, &[outer]);
    assert_eq!(names, [[format!("whole.stripped+{outer:#x}")]]);
    assert_eq!(
        warnings,
        ["no symbols for 1 module whose file is stripped and has no debug file: whole.stripped"]
    );
}

#[test]
fn regression_a_symbol_without_a_size_does_not_reach_to_the_next_one_of_an_incomplete_table() {
    let dir = tempfile::tempdir().unwrap();
    let assembly = dir.path().join("more.s");
    let source = ".text\n.type sized, @function\nsized: .fill 16, 1, 0x90\n.size sized, 16\n\
        .type bare, @function\nbare: .fill 64, 1, 0x90\n";
    fs::write(&assembly, source).unwrap();
    let program = compile(dir.path(), "whole", &[assembly.to_str().unwrap()]);
    let sized = place(&program, "sized").file_offset;
    let stripped = strip_to_mini_debug_info(dir.path(), &program);
    let (names, _) = named(dir.path(), &stripped, &[sized, sized + 16 + 40]);
    let unnamed = format!("whole.stripped+{:#x}", sized + 16 + 40);
    assert_eq!(names, [["sized"], [unnamed.as_str()]]);
}

#[test]
fn regression_a_packed_table_over_a_limit_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "program", &["-rdynamic", "-falign-functions=64"]);
    let outer = place(&program, "outer");
    let (outer, behind) = (outer.file_offset, outer.file_offset + outer.size);
    let zeros = dir.path().join("zeros");
    for (len, is_packed) in [(9 << 20, false), (33 << 20, true)] {
        fs::write(&zeros, vec![0; len]).unwrap();
        if is_packed {
            run("xz", &["-f", "-k", zeros.to_str().unwrap()]);
        }
        let content = if is_packed { zeros.with_extension("xz") } else { zeros.clone() };
        let section = format!(".gnu_debugdata={}", content.display());
        let stripped = dir.path().join("stripped");
        let (from, to) = (program.to_str().unwrap(), stripped.to_str().unwrap());
        run("strip", &["-o", to, from]);
        run("objcopy", &["--add-section", &section, to]);
        let (names, warnings) = named(dir.path(), &stripped, &[outer]);
        assert_eq!((names, warnings), (vec![vec!["outer".to_owned()]], Vec::new()), "exported");
        let (_, warnings) = named(dir.path(), &stripped, &[outer, behind]);
        let warning = "some functions of 1 module have no names: a packed symbol table is read up to \
            8 MiB packed and 32 MiB unpacked, and 56 MiB in all with debug information: stripped";
        assert_eq!(warnings, [warning]);
    }
}

/// Debian's C library exports a fraction of its functions. The others must not get the name of the
/// exported function before them.
#[test]
fn an_exported_name_reaches_no_further_than_its_size() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .lines()
        .find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("/libc.so.6")));
    let Some(libc) = libc else {
        println!("skipped: this test is not linked with glibc");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let stripped = dir.path().join("libc.so.6");
    run("strip", &["-o", stripped.to_str().unwrap(), libc]);
    let path = stripped.to_str().unwrap();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let symbols = run("readelf", &["--dyn-syms", "-W", path]);
    let sized: Vec<(u64, u64)> = symbols
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| fields.len() > 7 && matches!(fields[3], "FUNC" | "IFUNC"))
        .filter(|fields| fields[6] != "UND")
        .map(|fields| (hex(fields[1]), fields[2].parse().unwrap()))
        .collect();
    let sections = run("readelf", &["-SW", path]);
    let text = sections.lines().find(|line| line.contains(" .text ")).unwrap();
    let fields: Vec<&str> = text.split_once(']').unwrap().1.split_whitespace().collect();
    let (start, len) = (hex(fields[2]), hex(fields[4]));
    let svmas: Vec<u64> = (start..start + len).step_by(61).collect();
    let base = file_offset(path, start);
    let offsets: Vec<u64> = svmas.iter().map(|svma| svma - start + base).collect();
    let (names, _) = named(dir.path(), &stripped, &offsets);
    let mut unnamed = 0;
    for ((svma, offset), names) in svmas.iter().zip(&offsets).zip(&names) {
        let is_exported = sized.iter().any(|(start, size)| (*start..start + size).contains(svma));
        let is_named = *names != [format!("libc.so.6+{offset:#x}")];
        assert_eq!(is_named, is_exported, "{svma:#x}: {names:?}");
        unnamed += usize::from(!is_named);
    }
    assert!(unnamed > 1000 && unnamed < svmas.len(), "{unnamed} of {}", svmas.len());
}

/// A program with the table of a Go program of two functions, and the table's header with this start
/// of the text.
fn like_go(dir: &Path, file: &str, section: &str, header: (u32, &str), more: &str) -> PathBuf {
    let assembly = dir.join(format!("{file}.s"));
    let (magic, text_start) = header;
    let source = format!(
        ".text\n.fill 32, 1, 0x90\n.globl go_text\ngo_text:\n\
         first: .fill 16, 1, 0x90\nsecond: .fill 16, 1, 0x90\ngo_end: .fill 16, 1, 0x90\n\
         .section {section}, \"aw\"\n.balign 8\n\
         table: .long {magic}\n.byte 0, 0, 1, 8\n\
         .quad 2, 0, {text_start}, names - table, 0, 0, 0, entries - table\n\
         names: .byte 0\nname1: .asciz \"main.(*T).Work\"\nname2: .asciz \"gopkg.in/yaml%2ev3.Map[...]\"\n\
         .balign 4\n\
         entries: .long first - go_text, about1 - entries, second - go_text, about2 - entries, go_end - go_text\n\
         about1: .long first - go_text, name1 - names\n\
         about2: .long second - go_text, name2 - names\n{more}"
    );
    fs::write(&assembly, source).unwrap();
    let program = compile(dir, file, &[assembly.to_str().unwrap()]);
    let text = place(&program, "go_text").file_offset;
    run("strip", &[program.to_str().unwrap()]);
    let offsets = [text, text + 15, text + 16, text + 31, text + 32, text - 1];
    let (names, warnings) = named(dir, &program, &offsets);
    let unnamed = |at: u64| format!("{file}+{at:#x}");
    let (work, map) = ("main.(*T).Work", "gopkg.in/yaml.v3.Map[...]");
    let (after, before) = (unnamed(text + 32), unnamed(text - 1));
    assert_eq!(
        names,
        [[work], [work], [map], [map], [after.as_str()], [before.as_str()]],
        "{file}"
    );
    assert_eq!(warnings, Vec::<String>::new(), "{file}");
    program
}

#[test]
fn go_programs_are_named_from_their_own_table() {
    let dir = tempfile::tempdir().unwrap();
    // Go 1.18 to 1.25: the header has the start of the text, after a relocation. The linker merges
    // this section with others.
    let info = ".section .go.buildinfo, \"aw\"\n.quad 1\n";
    like_go(dir.path(), "go118", ".data.rel.ro.gopclntab", (0xffff_fff0, "go_text"), info);
    // Go 1.26: only the module data has it.
    let module = ".section .go.module, \"aw\"\n.balign 8\n.fill 22, 8, 0\n.quad go_text\n";
    let program = like_go(dir.path(), "go126", ".gopclntab", (0xffff_fff1, "0"), module);
    let whole = fs::read(&program).unwrap();
    let header = [0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    let at = whole.windows(8).position(|part| part == header).unwrap();
    // Damaged tables name nothing else, and do no harm.
    for byte in at..at + 180 {
        for bit in [0x01, 0x80] {
            let mut bytes = whole.clone();
            bytes[byte] ^= bit;
            fs::write(&program, bytes).unwrap();
            let (names, _) = named(dir.path(), &program, &[0x1000, 0x2000, 0x3000]);
            assert_eq!(names.len(), 3);
        }
    }
}

#[test]
fn go_itself_agrees() {
    let dir = tempfile::tempdir().unwrap();
    let source = "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\ntype T struct{ n int }\n\n\
        //go:noinline\nfunc (t *T) Work(n int) int { return n + t.n + inlined(n) }\n\n\
        func inlined(n int) int { return n * len(os.Args) }\n\n\
        //go:noinline\nfunc Map[A any](in []A, f func(A) A) (out []A) {\n\tfor _, a := range in {\n\t\tout = append(out, f(a))\n\t}\n\treturn\n}\n\n\
        func main() {\n\tt := &T{1}\n\tfmt.Println(t.Work(2), Map([]int{1}, func(n int) int { return n + len(os.Args) }))\n}\n";
    fs::write(dir.path().join("main.go"), source).unwrap();
    fs::write(dir.path().join("go.mod"), "module example.com/prog\n\ngo 1.18\n").unwrap();
    let build = |file: &str, arguments: &[&str]| {
        let mut command = Command::new("go");
        command.current_dir(dir.path()).env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local");
        let output = command.args(["build", "-o", file]).args(arguments).arg(".").output();
        let output = output.ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(dir.path().join(file))
    };
    for (file, mode) in [("static", "exe"), ("moving", "pie")] {
        let mode = format!("-buildmode={mode}");
        let Some(whole) = build(file, &[&mode]) else {
            println!("skipped: go is not installed");
            return;
        };
        let work = place(&whole, "main.(*T).Work");
        let map = place(&whole, "main.Map[go.shape.int]");
        let (names, warnings) = named(dir.path(), &whole, &[work.file_offset, map.file_offset]);
        assert_eq!(names, [["main.(*T).Work"], ["main.Map[...]"]], "{file}");
        assert_eq!(warnings, Vec::<String>::new(), "{file}");
        let within: Vec<u64> = (work.file_offset..work.file_offset + work.size).collect();
        let (names, _) = named(dir.path(), &whole, &within);
        let inlined = ["main.inlined", "main.(*T).Work"];
        assert!(names.iter().any(|names| *names == inlined), "{file}: {names:?}");

        let bare = dir.path().join("bare");
        run("strip", &["-o", bare.to_str().unwrap(), whole.to_str().unwrap()]);
        let offsets = [work.file_offset, map.file_offset];
        let (names, warnings) = named(dir.path(), &bare, &offsets);
        assert_eq!(names, [["main.(*T).Work"], ["main.Map[...]"]], "{file}");
        assert_eq!(warnings, Vec::<String>::new(), "{file}");
        // `-s -w` may move functions.
        let bare = build(&format!("{file}.bare"), &[&mode, "-ldflags=-s -w"]).unwrap();
        let all: Vec<u64> = (0..fs::metadata(&bare).unwrap().len()).step_by(64).collect();
        let (names, _) = named(dir.path(), &bare, &all);
        let count = |what: &str| names.iter().filter(|names| *names == &[what]).count();
        assert!(count("main.main") > 0 && count("runtime.mallocgc") > 0, "{file}");
    }
}
