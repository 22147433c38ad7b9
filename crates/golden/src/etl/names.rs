//! Names on Windows: images, processes, symbol files.

use super::scheduler::code;
use crate::machine::Machine;
use unhitch_etl_writer::{Guid, Pdb, Public};

/// Images that are libraries. All others are programs.
const LIBRARIES: [&str; 10] = [
    "chrome",
    "kernelbase",
    "user32",
    "ntdll",
    "ucrtbase",
    "perfproc",
    "dwmcore",
    "mspdbcore",
    "c1xx",
    "c2",
];
const SYSTEM: &str = "\\Device\\HarddiskVolume3\\Windows\\System32";

/// Image name of a process: its first thread's name, or that of any known thread.
pub(super) fn process_name(machine: &Machine, pid: u32) -> String {
    let of_process = || machine.tasks.iter().filter(|task| task.pid == pid);
    let task = of_process().find(|task| task.tid == pid).or_else(|| of_process().next());
    match task.map(|task| task.comm.as_str()) {
        Some(_) if pid == 0 => "Idle".to_owned(),
        Some(name) if pid == 4 || name.ends_with(".exe") => name.to_owned(),
        Some(name) => format!("{name}.exe"),
        None => "Unknown".to_owned(),
    }
}

/// Path of an image.
pub(super) fn image_path(image: &str) -> String {
    match image {
        "nt" => "\\SystemRoot\\system32\\ntoskrnl.exe".to_owned(),
        "win32k" | "ntfs" | "storport" => format!("\\SystemRoot\\System32\\drivers\\{image}.sys"),
        _ if image.ends_with(".exe") => format!("\\Device\\HarddiskVolume3\\made-up\\{image}"),
        _ if LIBRARIES.contains(&image) => format!("{SYSTEM}\\{image}.dll"),
        _ => format!("{SYSTEM}\\{image}.exe"),
    }
}

/// What links an image and its symbol file: id, age, and the file's name.
pub(super) fn symbol_id(image: &str, functions: &[(&str, u64)]) -> (Guid, u32, String) {
    // FNV-1a of the content: a number that differs between images, and between the builds of an
    // image in different traces, because they share one symbol store.
    let of_functions =
        functions.iter().flat_map(|(name, offset)| name.bytes().chain(offset.to_le_bytes()));
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let hash = image.bytes().chain(of_functions).fold(0xcbf2_9ce4_8422_2325_u64, hash);
    let guid = Guid::new(
        hash as u32,
        (hash >> 32) as u16,
        (hash >> 48) as u16,
        hash.rotate_left(17).to_be_bytes(),
    );
    let name = if image == "nt" { "ntkrnlmp" } else { image.trim_end_matches(".exe") };
    (guid, 1, format!("{name}.pdb"))
}

/// The PDBs of all images: path in a symbol store, and content.
pub(crate) fn symbol_files(machine: &Machine) -> Vec<(String, Vec<u8>)> {
    let (code, _) = code(machine);
    let file = |(image, functions): (&str, Vec<(&str, u64)>)| {
        let (guid, age, name) = symbol_id(image, &functions);
        let public = |(function, offset): (&str, u64)| Public {
            name: mangled(function),
            rva: offset as u32,
            function: true,
        };
        let pdb = Pdb {
            guid,
            age,
            publics: functions.into_iter().map(public).collect(),
            procedures: Vec::new(),
        };
        (format!("{name}/{}{age:X}/{name}", guid.digits()), pdb.encode())
    };
    code.images().map(|(image, _, _, functions)| file((image, functions))).collect()
}

/// The linker's name: `a::b::c` is a C++ function without parameters, anything else is C.
fn mangled(function: &str) -> String {
    let mut parts: Vec<&str> = function.split("::").collect();
    if parts.len() == 1 {
        return function.to_owned();
    }
    parts.reverse();
    format!("?{}@@YAXXZ", parts.join("@"))
}
