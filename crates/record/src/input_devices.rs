//! Marks of input from the machine's own devices (evdev), for machines without a desktop session.
//!
//! Off unless the configuration asks for it: then no device is opened. A thread reads what keys,
//! mouse buttons and wheels report; the kernel keeps all else (the mouse's movements, touches'
//! places) from it. Marks stay here until the recorder takes them: nothing wakes it.
//!
//! Sources: Documentation/input/event-codes.rst, `include/uapi/linux/input.h`.

mod handler;
mod keys;

use crate::sys;
use handler::{Console, Opener};
use rustix::fs::inotify;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use unhitch_formats::container::Mark;
use unhitch_model::InputMarks;

/// Where the devices are.
const FOLDER: &str = "/dev/input";
/// Maximum number of marks that wait for the recorder.
const MAX_MARKS: usize = 16_384;
/// Maximum number of devices.
const MAX_DEVICES: usize = 64;
/// How long input is collected before it is read, so that typing wakes the thread less often. The
/// kernel keeps the times.
const COLLECT: Duration = Duration::from_millis(50);

/// Event types.
const EV_KEY: u16 = 1;
const EV_REL: u16 = 2;
/// Wheels: sideways, and up and down.
const WHEELS: [u16; 2] = [6, 8];
/// Size of a C `long`: an event begins with two of them, seconds and microseconds.
const LONG: usize = size_of::<libc::c_long>();
/// Size of `struct input_event`.
const EVENT: usize = 2 * LONG + 8;

/// The input devices that are read, until it is dropped.
#[derive(Default)]
pub(crate) struct InputDevices {
    mode: Option<InputMarks>,
    marks: Arc<Mutex<VecDeque<Mark>>>,
    /// Its end tells the thread to end.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl InputDevices {
    /// Reads the devices as `mode` says. An error says why there are no marks of input.
    pub(crate) fn start(mode: InputMarks) -> Result<Self, String> {
        if mode == InputMarks::Off {
            return Ok(Self::default());
        }
        let mut reader = Reader { mode, devices: Vec::new(), console: Console::default() };
        let new = watch(Path::new(FOLDER));
        reader.open_all(Path::new(FOLDER))?;
        let (end, ended) = UnixStream::pair().map_err(|error| error.to_string())?;
        let marks = Arc::<Mutex<VecDeque<Mark>>>::default();
        let kept = Arc::clone(&marks);
        let run = move || reader.run(new.as_ref(), &ended, &kept);
        let thread = std::thread::Builder::new().name("unhitch-input".to_owned()).spawn(run);
        let thread = Some(thread.map_err(|error| error.to_string())?);
        Ok(Self { mode: Some(mode), marks, end: Some(end), thread })
    }

    /// How much the marks tell.
    pub(crate) fn mode(&self) -> InputMarks {
        self.mode.unwrap_or(InputMarks::Off)
    }

    /// The marks since the last call.
    pub(crate) fn take(&self) -> Vec<Mark> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}

impl Drop for InputDevices {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Tells of devices that come; `None`: only those that are there now are read.
fn watch(folder: &Path) -> Option<OwnedFd> {
    let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok()?;
    // Their permissions are set after they are made.
    let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::ATTRIB;
    inotify::add_watch(&fd, folder, events).ok()?;
    Some(fd)
}

/// A device that is read.
struct Device {
    path: PathBuf,
    file: File,
    opener: Opener,
}

/// What the thread works with.
struct Reader {
    mode: InputMarks,
    devices: Vec<Device>,
    console: Console,
}

impl Reader {
    /// Opens the devices with keys or buttons that are not open. An error if none can be.
    fn open_all(&mut self, folder: &Path) -> Result<(), String> {
        let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        let entries = fs::read_dir(folder).map_err(|error| failed(folder, error))?;
        let mut refused = None;
        for entry in entries.flatten() {
            let path = entry.path();
            let is_event = entry.file_name().to_string_lossy().starts_with("event");
            let is_open = self.devices.iter().any(|device| device.path == path);
            if !is_event || is_open || self.devices.len() >= MAX_DEVICES {
                continue;
            }
            match open(&path) {
                Ok(Some(file)) => {
                    self.devices.push(Device { path, file, opener: Opener::default() });
                }
                Ok(None) => {}
                Err(error) => refused = Some(failed(&path, error)),
            }
        }
        refused.filter(|_| self.devices.is_empty()).map_or(Ok(()), Err)
    }

    fn run(mut self, new: Option<&OwnedFd>, ended: &UnixStream, kept: &Mutex<VecDeque<Mark>>) {
        loop {
            let mut fds = vec![ended.as_fd()];
            fds.extend(new.map(AsFd::as_fd));
            fds.extend(self.devices.iter().map(|device| device.file.as_fd()));
            let Ok(ready) = sys::poll(&fds, -1) else { return };
            if ready.first().is_none_or(|end| end.readable || end.hung_up) {
                return;
            }
            std::thread::sleep(COLLECT);
            let mut marks = Vec::new();
            self.read(&mut marks);
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(marks);
            let surplus = kept.len().saturating_sub(MAX_MARKS);
            kept.drain(..surplus);
            drop(kept);
            if let Some(new) = new.filter(|_| ready.get(1).is_some_and(|new| new.readable)) {
                let mut bytes = [0; 4096];
                while rustix::io::read(new, &mut bytes).is_ok_and(|len| len > 0) {}
                let _ = self.open_all(Path::new(FOLDER));
            }
        }
    }

    /// Reads what all devices have; forgets those that are gone.
    fn read(&mut self, marks: &mut Vec<Mark>) {
        let Self { mode, devices, console } = self;
        devices.retain_mut(|device| {
            let mut bytes = [0; 64 * EVENT];
            loop {
                match device.file.read(&mut bytes) {
                    Ok(0) => return false,
                    Ok(len) => {
                        let pid = device.opener.of(&device.path).or_else(|| console.foreground());
                        let events = bytes[..len].chunks_exact(EVENT);
                        marks.extend(events.filter_map(|event| mark(event, *mode, pid)));
                        // The others' turn.
                        if marks.len() >= MAX_MARKS {
                            return true;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return error.kind() == ErrorKind::WouldBlock,
                }
            }
        });
    }
}

/// Opens a device for its keys, buttons and wheels; `None` if it has none of them.
fn open(path: &Path) -> io::Result<Option<File>> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !keys::are_input(&sys::input_codes(file.as_fd(), EV_KEY)?) {
        return Ok(None);
    }
    sys::set_input_clock(file.as_fd(), libc::CLOCK_MONOTONIC)?;
    // Kernels before 4.4 have no masks: more reaches us, and is left out.
    let bits = |codes: &[u16]| codes.iter().fold(0u32, |bits, code| bits | 1 << code).to_ne_bytes();
    let _ = sys::set_input_mask(file.as_fd(), EV_REL, &bits(&WHEELS));
    let _ = sys::set_input_mask(file.as_fd(), 0, &bits(&[EV_KEY, EV_REL]));
    Ok(Some(file))
}

/// The mark of an event, if it is one of input.
fn mark(event: &[u8], mode: InputMarks, pid: Option<u32>) -> Option<Mark> {
    let long = |at: usize| {
        let bytes = event.get(at..at + LONG)?.try_into().ok()?;
        u64::try_from(libc::c_long::from_ne_bytes(bytes)).ok()
    };
    let short = |at: usize| Some(u16::from_ne_bytes(event.get(at..at + 2)?.try_into().ok()?));
    let seconds = long(0)?;
    let time_ns =
        seconds.checked_mul(1_000_000_000)?.checked_add(long(LONG)?.checked_mul(1000)?)?;
    let (kind, code) = (short(2 * LONG)?, short(2 * LONG + 2)?);
    let value = i32::from_ne_bytes(event.get(2 * LONG + 4..EVENT)?.try_into().ok()?);
    let mode_name = Some(mode.name().to_owned());
    let input = Mark { time_ns, mode: mode_name, pid, ..Mark::default() };
    match (kind, value) {
        // A key that is held repeats itself; how long shows by its release.
        (EV_KEY, 0 | 1) => {
            let press = Some(value == 1);
            match keys::meaning(code)? {
                keys::Meaning::Button(number) => {
                    Some(Mark { kind: "button".to_owned(), press, code: Some(number), ..input })
                }
                keys::Meaning::Key(class) => Some(Mark {
                    kind: "key".to_owned(),
                    press,
                    class: Some(class.to_owned()),
                    // As X counts keys.
                    code: (mode == InputMarks::Full).then(|| u32::from(code) + 8),
                    ..input
                }),
            }
        }
        (EV_REL, 1.. | ..=-1) if WHEELS.contains(&code) => {
            Some(Mark { kind: "wheel".to_owned(), ..input })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u16, code: u16, value: i32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for long in [3 as libc::c_long, 250_000] {
            bytes.extend(long.to_ne_bytes());
        }
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(code.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_private_mark_has_a_class_and_no_code() {
        let key = mark(&event(EV_KEY, 30, 1), InputMarks::Private, Some(7)).unwrap();
        assert_eq!(
            serde_json::to_value(&key).unwrap(),
            serde_json::json!({
                "time_ns": 3_250_000_000_u64, "received_ns": 0, "uid": 0, "sender": 0,
                "kind": "key", "press": true, "class": "letter", "mode": "private", "pid": 7,
            })
        );
        let full = mark(&event(EV_KEY, 30, 0), InputMarks::Full, None).unwrap();
        assert_eq!((full.code, full.press), (Some(38), Some(false)));
    }

    #[test]
    fn all_but_keys_buttons_and_wheels_is_left_out() {
        let kinds = |events: &[Vec<u8>]| -> Vec<String> {
            let marks = events.iter().filter_map(|event| mark(event, InputMarks::Private, None));
            marks.map(|mark| mark.kind).collect()
        };
        let left_out = [
            event(0, 0, 0),
            event(EV_KEY, 30, 2),
            event(EV_KEY, 0x120, 1),
            event(EV_REL, 0, 5),
            event(EV_REL, 8, 0),
            event(3, 0, 17),
            event(u16::MAX, u16::MAX, i32::MIN),
            event(EV_KEY, 30, 1)[..EVENT - 1].to_vec(),
            Vec::new(),
        ];
        assert_eq!(kinds(&left_out), [""; 0]);
        let kept = [event(EV_KEY, 0x110, 1), event(EV_REL, 8, -1), event(EV_KEY, 57, 0)];
        assert_eq!(kinds(&kept), ["button", "wheel", "key"]);
    }

    #[test]
    fn off_opens_no_device() {
        let devices = InputDevices::start(InputMarks::Off).unwrap();
        assert!(devices.thread.is_none() && devices.take().is_empty());
        assert_eq!(devices.mode(), InputMarks::Off);
    }

    #[test]
    fn what_is_no_device_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let mut reader =
            Reader { mode: InputMarks::Private, devices: Vec::new(), console: Console::default() };
        assert!(reader.open_all(&folder.path().join("none")).unwrap_err().contains("No such file"));
        reader.open_all(folder.path()).unwrap();
        fs::write(folder.path().join("event0"), "a file").unwrap();
        assert!(reader.open_all(folder.path()).unwrap_err().contains("event0: "));
    }
}
