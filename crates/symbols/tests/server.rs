//! PDBs are fetched from a symbol server if the path names one: once, complete and of the right
//! build, or not at all. The servers are threads of the tests, on this machine. Needs the program
//! `curl`.

use crate::server_support::{Server, files, ok, status};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use unhitch_etl_writer::{Guid, Pdb, Public};
use unhitch_model::{Frame, FrameId, Module, ModuleKind, System, Trace};
use unhitch_symbols::{Fetching, Options, SymbolPath, Symbolizer};

const GUID: Guid =
    Guid::new(0x3844_dbb9, 0x2017, 0x4967, [0xbe, 0x7a, 0xa4, 0xa2, 0xc2, 0x04, 0x30, 0xfa]);
const AGE: u32 = 0x1a;
const KEY: &str = "3844DBB920174967BE7AA4A2C20430FA1A";

fn pdb(guid: Guid) -> Vec<u8> {
    let public =
        Public { name: "?Run@MessagePump@base@@UEAAXXZ".to_owned(), rva: 0x1000, function: true };
    Pdb { guid, age: AGE, publics: vec![public], procedures: Vec::new() }.encode()
}

/// A trace with a frame in each of these images, whose PDBs have the same names.
fn trace(images: &[&str]) -> Trace {
    let mut trace = Trace::default();
    trace.meta.system = System::Windows;
    for image in images {
        let path = trace.strings.intern(&format!("C:\\{image}.dll"));
        let pdb = trace.strings.intern(&format!("D:\\out\\{}.pdb", image.trim_end_matches('2')));
        let kind = ModuleKind::Image { pdb, timestamp: 1, size_bytes: 0x10_0000, kernel: false };
        let module = trace.modules.intern(Module {
            path,
            kind,
            build_id: [GUID.0.as_slice(), &AGE.to_le_bytes()].concat(),
        });
        trace.stacks.intern_frame(Frame { module, offset: 0x1010 });
    }
    trace
}

fn short() -> Fetching {
    Fetching { max_bytes: 1 << 20, patience: Duration::from_secs(1), ..Fetching::default() }
}

/// The name of the first frame, and the warnings.
fn resolve(images: &[&str], path: &SymbolPath) -> (String, Vec<String>) {
    let mut trace = trace(images);
    Symbolizer::new(Options { pdbs: path.clone(), fetching: short(), ..Options::default() })
        .resolve(&mut trace);
    (trace.frame_names(FrameId(0)).join(" "), trace.warnings.lines().collect())
}

fn path(cache: &Path, server: &Server) -> SymbolPath {
    SymbolPath::parse(&format!("srv*{}*{}", cache.display(), server.url), None)
}

#[test]
fn a_pdb_is_fetched_once_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("not").join("there yet");
    let server = Server::new(|_| ok(&pdb(GUID)));
    // The second image has the same PDB.
    let (name, warnings) = resolve(&["my widget", "my widget2"], &path(&cache, &server));
    assert_eq!((name.as_str(), warnings), ("base::MessagePump::Run", Vec::new()));
    assert_eq!(server.asked(), [format!("/store/my%20widget.pdb/{KEY}/my%20widget.pdb")]);
    let kept = cache.join("my widget.pdb").join(KEY).join("my widget.pdb");
    assert_eq!(files(&cache), std::slice::from_ref(&kept));
    assert_eq!(fs::read(&kept).unwrap(), pdb(GUID));
    // Another run has it from the cache.
    assert_eq!(resolve(&["my widget"], &path(&cache, &server)).0, "base::MessagePump::Run");
    assert_eq!(server.asked().len(), 1);
    // A damaged file is fetched again.
    fs::write(&kept, b"broken").unwrap();
    assert_eq!(resolve(&["my widget"], &path(&cache, &server)).0, "base::MessagePump::Run");
    assert_eq!((server.asked().len(), fs::read(&kept).unwrap()), (2, pdb(GUID)));
}

#[test]
fn a_redirection_is_followed() {
    let cache = tempfile::tempdir().unwrap();
    let end = Server::new(|_| ok(&pdb(GUID)));
    let to =
        format!("HTTP/1.1 302 Found\r\nLocation: {}/blob\r\nContent-Length: 0\r\n\r\n", end.url);
    let server = Server::new(move |_| to.clone().into_bytes());
    assert_eq!(
        resolve(&["widget"], &path(cache.path(), &server)),
        ("base::MessagePump::Run".to_owned(), Vec::new())
    );
    assert_eq!(end.asked(), ["/store/blob"]);
}

#[test]
fn without_a_server_or_a_place_to_keep_it_nothing_is_asked_for() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::new(|_| ok(&pdb(GUID)));
    let bare = SymbolPath::parse(&format!("srv*{}", server.url), None);
    let (_, warnings) = resolve(&["widget"], &bare);
    let message = format!(
        "no symbols for 1 image whose PDB was not fetched: {} has no folder to fetch files into",
        server.url
    );
    assert!(warnings[0].starts_with(&message), "{warnings:?}");
    // A file in a folder of the path is not requested, wherever the folder is in the path.
    let near = tempfile::tempdir().unwrap();
    fs::write(near.path().join("widget.pdb"), pdb(GUID)).unwrap();
    let both = format!("srv*{}*{};{}", cache.path().display(), server.url, near.path().display());
    assert_eq!(resolve(&["widget"], &SymbolPath::parse(&both, None)).0, "base::MessagePump::Run");
    assert_eq!((server.asked(), files(cache.path())), (Vec::new(), Vec::new()));
}

#[test]
fn what_a_server_does_not_have_is_asked_for_once() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::new(|_| status("404 Not Found"));
    let path = path(cache.path(), &server);
    for _ in 0..2 {
        let message = format!(
            "no symbols for a.dll, a2.dll, b.dll: their PDBs are neither in the folders of the symbol path nor on {}",
            server.url
        );
        assert_eq!(resolve(&["a", "a2", "b"], &path).1, [message]);
    }
    assert_eq!(
        server.asked(),
        [format!("/store/a.pdb/{KEY}/a.pdb"), format!("/store/b.pdb/{KEY}/b.pdb")]
    );
    assert_eq!(files(cache.path()), Vec::<PathBuf>::new());
}

#[test]
fn nothing_wrong_is_kept() {
    let whole = pdb(GUID);
    let other = pdb(Guid::new(1, 2, 3, [4; 8]));
    let cut = whole[..whole.len() - 100].to_vec();
    let mut broken_off = ok(&whole);
    broken_off.truncate(broken_off.len() - 100);
    let too_long_announced =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 2 << 20).into_bytes();
    let too_long = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), whole.clone(), vec![0; 2 << 20]].concat();
    let just_too_long =
        [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), whole.clone(), vec![0; (1 << 20) + 1 - whole.len()]]
            .concat();
    for (answer, message) in [
        (ok(&other), "sent PDBs of other builds"),
        (ok(&cut), "sent something that is not a whole PDB"),
        (ok(b"<html>Sign in</html>"), "sent something that is not a whole PDB"),
        (ok(b""), "sent something that is not a whole PDB"),
        (broken_off, "stopped before the end of the PDB"),
        // Its length is not announced, and it ends too early.
        (
            [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), cut.clone()].concat(),
            "sent something that is not a whole PDB",
        ),
        (too_long_announced, "sent more than 1 MiB for a PDB"),
        (too_long, "sent more than 1 MiB for a PDB"),
        (just_too_long, "sent more than 1 MiB for a PDB"),
        (status("403 Forbidden"), "answered with status 403"),
    ] {
        let cache = tempfile::tempdir().unwrap();
        let server = Server::new(move |_| answer.clone());
        let (name, warnings) = resolve(&["a", "b"], &path(cache.path(), &server));
        let shown = format!(
            "no symbols for 2 images whose PDB was not fetched: {} {message}: a.dll, b.dll",
            server.url
        );
        assert_eq!((name.as_str(), warnings), ("a.dll+0x1010", vec![shown]));
        // A wrong file does not affect the next one.
        assert_eq!((server.asked().len(), files(cache.path())), (2, Vec::new()), "{message}");
    }
}

#[test]
fn a_server_in_trouble_is_reported_once_and_left_alone() {
    let images: Vec<String> = (0..40).map(|n| format!("image{n:02}")).collect();
    let images: Vec<&str> = images.iter().map(String::as_str).collect();
    // Maximum number of requests on their way when the first fails.
    let at_most = rayon::current_num_threads();
    let slow = Server::new(|_| {
        std::thread::sleep(Duration::from_secs(3));
        Vec::new()
    });
    let closed = Server { url: "http://127.0.0.1:1/store".to_owned(), asked: Arc::default() };
    for (server, message) in [
        (Server::new(|_| status("503 Service Unavailable")), "answered with status 503"),
        (slow, "did not answer (curl: (28)"),
        (closed, "did not answer (curl: (7)"),
    ] {
        let cache = tempfile::tempdir().unwrap();
        let began = Instant::now();
        let (_, warnings) = resolve(&images, &path(cache.path(), &server));
        let shown =
            format!("no symbols for 40 images whose PDB was not fetched: {} {message}", server.url);
        assert!(warnings.len() == 1 && warnings[0].starts_with(&shown), "{warnings:?}");
        assert!(
            warnings[0]
                .ends_with(": image00.dll, image01.dll, image02.dll, image03.dll, image04.dll, …"),
            "{warnings:?}"
        );
        assert!(
            server.asked().len() <= at_most && files(cache.path()).is_empty(),
            "{:?}",
            server.asked()
        );
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}
