//! Frames of Windows images get their names from PDBs of their own build, whole or damaged. The
//! PDBs are synthetic.

use std::path::Path;
use unhitch_etl_writer::{Guid, Pdb, Procedure, Public};
use unhitch_model::{Frame, FrameId, Module, ModuleKind, System, Trace};
use unhitch_symbols::{Options, SymbolPath, Symbolizer};

const GUID: Guid =
    Guid::new(0x3844_dbb9, 0x2017, 0x4967, [0xbe, 0x7a, 0xa4, 0xa2, 0xc2, 0x04, 0x30, 0xfa]);
const AGE: u32 = 0x1a;
const KEY: &str = "3844DBB920174967BE7AA4A2C20430FA1A";
/// Before the first function, in and behind public ones, in a procedure, behind it, far beyond.
const RVAS: [u64; 8] = [0xfff, 0x1000, 0x1041, 0x1180, 0x2000, 0x2010, 0x2040, 0x90_0000];

fn pdb() -> Pdb {
    let public = |name: &str, rva| Public { name: name.to_owned(), rva, function: true };
    Pdb {
        guid: GUID,
        age: AGE,
        publics: vec![
            public("?Later@Widget@ui@@QEAAXXZ", 0x2000),
            public("?Run@MessagePump@base@@UEAAXXZ", 0x1000),
            public("zzz_same_place", 0x1000),
            public("NtClose", 0x1100),
        ],
        procedures: vec![Procedure {
            name: "ui::Widget::Inner".to_owned(),
            rva: 0x2010,
            len: 0x20,
        }],
    }
}

/// A trace whose one image has frames at [`RVAS`].
fn trace(guid: Guid, age: u32) -> Trace {
    let mut trace = Trace::default();
    trace.meta.system = System::Windows;
    let path = trace.strings.intern("\\Device\\HarddiskVolume3\\Program Files\\Widget\\widget.dll");
    let pdb = trace.strings.intern("D:\\build\\out\\widget.pdb");
    let kind = ModuleKind::Image { pdb, timestamp: 1, size_bytes: 0x10_0000, kernel: false };
    let build_id = [guid.0.as_slice(), &age.to_le_bytes()].concat();
    let module = trace.modules.intern(Module { path, kind, build_id });
    for offset in RVAS {
        trace.stacks.intern_frame(Frame { module, offset });
    }
    trace
}

fn names(trace: &Trace) -> Vec<String> {
    (0..RVAS.len() as u32).flat_map(|frame| trace.frame_names(FrameId(frame))).collect()
}

fn resolve(trace: &mut Trace, path: &str) -> Vec<String> {
    Symbolizer::new(Options { pdbs: SymbolPath::parse(path, None), ..Options::default() })
        .resolve(trace);
    trace.warnings.lines().collect()
}

fn write(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

const NAMED: [&str; 8] = [
    "widget.dll+0xfff",
    "base::MessagePump::Run",
    "base::MessagePump::Run",
    "NtClose",
    "ui::Widget::Later",
    "ui::Widget::Inner",
    "ui::Widget::Later",
    "widget.dll+0x900000",
];

#[test]
fn functions_are_found_in_every_layout_of_a_folder() {
    let bytes = pdb().encode();
    for layout in [
        "widget.pdb".to_owned(),
        "symbols/pdb/widget.pdb".to_owned(),
        format!("widget.pdb/{KEY}/widget.pdb"),
        format!("widget.pdb/{}/widget.pdb", KEY.to_ascii_lowercase()),
        format!("wi/widget.pdb/{KEY}/widget.pdb"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &layout, &bytes);
        let mut trace = trace(GUID, AGE);
        let warnings = resolve(&mut trace, &format!("srv*{}", folder.path().display()));
        assert_eq!(
            (names(&trace), warnings),
            (NAMED.map(str::to_owned).to_vec(), Vec::new()),
            "{layout}"
        );
    }
}

#[test]
fn another_build_names_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "widget.pdb", &pdb().encode());
    for (guid, age) in [(GUID, AGE + 1), (Guid::new(1, 2, 3, [4; 8]), AGE)] {
        let mut trace = trace(guid, age);
        let warnings = resolve(&mut trace, &folder.path().display().to_string());
        assert!(trace.symbols.is_empty());
        assert_eq!(
            warnings,
            ["no symbols for 1 image: only PDBs of other builds were found: widget.dll"]
        );
    }
}

#[test]
fn what_is_missing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let shown = |path: &str| resolve(&mut trace(GUID, AGE), path).join("\n");
    assert_eq!(
        shown(""),
        "no function names: the PDB of 1 image is needed; name a folder, a symbol store or a server in _NT_SYMBOL_PATH, or with --symbols"
    );
    assert_eq!(
        shown(&format!("{place}")),
        "no symbols for widget.dll: its PDB is in none of the folders of the symbol path"
    );
    write(folder.path(), &format!("widget.pdb/{KEY}/widget.pd_"), b"MSCF");
    assert!(shown(&format!("{place}")).contains("compressed"));
    let other = tempfile::tempdir().unwrap();
    write(other.path(), "widget.pdb", b"no PDB");
    assert_eq!(
        shown(&other.path().display().to_string()),
        "no symbols for 1 image whose PDB is damaged: widget.dll"
    );
    // The tables of the next one are complete, but the rest is missing.
    write(other.path(), "widget.pdb", &pdb().encode()[..pdb().encode().len() - 1]);
    assert_eq!(
        shown(&other.path().display().to_string()),
        "no symbols for 1 image whose PDB is damaged: widget.dll"
    );
    let mut unmerged = trace(GUID, AGE);
    let (path, pdb) = (unmerged.strings.intern("C:\\other.exe"), unmerged.strings.intern(""));
    let kind = ModuleKind::Image { pdb, timestamp: 1, size_bytes: 1, kernel: false };
    let module = unmerged.modules.intern(Module { path, kind, build_id: Vec::new() });
    unmerged.stacks.intern_frame(Frame { module, offset: 1 });
    assert!(resolve(&mut unmerged, &format!("{place}")).join("\n").contains("xperf -merge"));
}

/// Resolves with these bytes as the PDB; damage may cost names, and never leads to a read at a
/// wrong place.
fn survives(folder: &Path, bytes: &[u8]) {
    std::fs::write(folder.join("widget.pdb"), bytes).unwrap();
    resolve(&mut trace(GUID, AGE), &folder.display().to_string());
}

#[test]
fn damage_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pdb().encode();
    for len in (0..bytes.len()).step_by(13) {
        survives(folder.path(), &bytes[..len]);
    }
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..2_000 {
        let mut damaged = bytes.clone();
        for _ in 0..=round % 4 {
            let at = (random() >> 8) as usize % damaged.len();
            damaged[at] ^= 1 << (random() % 8);
        }
        survives(folder.path(), &damaged);
    }
    // Whole fields of the tables, to the ends of their ranges.
    for at in (0..bytes.len() - 4).step_by(4) {
        for value in [0, u32::MAX] {
            let mut damaged = bytes.clone();
            damaged[at..at + 4].copy_from_slice(&value.to_le_bytes());
            survives(folder.path(), &damaged);
        }
    }
}
