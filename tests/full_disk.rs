//! A recording survives a full disk: small file systems are mounted where the trace would go, in a
//! separate mount namespace. A test that the machine does not permit prints `SKIPPED name: reason`.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Smaller than any trace: the event descriptions alone take more.
const FULL: &str = "size=16k";

fn skipped(name: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {reason}");
}

/// Runs `script` in its own mount namespace, with small file systems at `full`; `$UNHITCH` is the
/// program, and HOME is `home`.
fn among_full_disks(full: &[&Path], home: &Path, script: &str) -> Command {
    let mount = |path: &&Path| {
        format!(
            "mkdir -p '{0}' && mount -t tmpfs -o {FULL} tmpfs '{0}' || exit 77\n",
            path.display()
        )
    };
    let mounts: String = full.iter().map(mount).collect();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &format!("{mounts}{script}")]);
    command
        .env("HOME", home)
        .env("UNHITCH", env!("CARGO_BIN_EXE_unhitch"))
        .env_remove("XDG_STATE_HOME");
    command
}

/// The output, unless the machine permits neither namespaces nor recording.
fn permitted(name: &str, output: std::io::Result<Output>) -> Option<(Output, String)> {
    let Ok(output) = output else {
        skipped(name, "unshare cannot be run");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let refused =
        ["may not", "not permitted", "Operation not permitted", "mount tracefs", "is missing"];
    if output.status.code() == Some(77)
        || (output.status.code() == Some(1) && refused.iter().any(|words| errors.contains(words)))
    {
        skipped(name, errors.lines().next().unwrap_or("a file system cannot be mounted"));
        return None;
    }
    Some((output, errors))
}

#[test]
fn a_recording_goes_where_there_is_room() {
    let name = "a_recording_goes_where_there_is_room";
    let folder = tempfile::tempdir().unwrap();
    let (disk, home) = (folder.path().join("disk"), folder.path().join("home"));
    std::fs::create_dir(&home).unwrap();
    let full = [disk.as_path(), Path::new("/var/lib"), Path::new("/var/tmp")];
    let script = format!(
        "$UNHITCH record -o '{0}/mine.hitch' --for 0.3s; code=$?; ls -A '{0}' /var/tmp /var/lib >&2; exit $code",
        disk.display()
    );
    let Some((output, errors)) = permitted(name, among_full_disks(&full, &home, &script).output())
    else {
        return;
    };
    assert!(output.status.success(), "{errors}");
    let path = String::from_utf8(output.stdout).unwrap();
    assert!(Path::new(path.trim()).starts_with(&home), "{path}\n{errors}");
    let trace = unhitch_formats::open(Path::new(path.trim())).unwrap();
    assert!(!trace.switches.is_empty());
    for words in [
        "because it could not be written to the requested place",
        "disk",
        "/var/tmp",
        "No space left: the trace needs",
    ] {
        assert!(errors.contains(words), "{words}: {errors}");
    }
    assert!(!errors.contains(".partial"), "nothing is left behind: {errors}");
}

/// Somebody else fills the disk, or the trace does: the recording ends with one message, and what
/// was written opens.
#[test]
fn a_disk_that_fills_up_ends_the_recording() {
    let name = "a_disk_that_fills_up_ends_the_recording";
    let folder = tempfile::tempdir().unwrap();
    let (disk, home) = (folder.path().join("disk"), folder.path().join("home"));
    std::fs::create_dir(&home).unwrap();
    let filled = "head -c 16M /dev/zero > \"$DISK/fill\"";
    // BPF writes too little to fill a disk soon.
    for (engine, fill) in [("perf", "true"), ("perf", filled), ("bpf", filled)] {
        let script = format!(
            "DISK='{0}'; mount -o remount,size=6m tmpfs \"$DISK\" || exit 77
             $UNHITCH record -o \"$DISK/try.hitch\" --engine {engine} --for 0.1s >&2 || exit 77
             rm \"$DISK/try.hitch\"
             $UNHITCH record -o \"$DISK/a.hitch\" --engine {engine} --rate 5000 & recorder=$!
             tries=0
             until [ -s \"$DISK/a.hitch\" ]; do
                 kill -0 $recorder 2>/dev/null || break
                 sleep 0.1; tries=$((tries+1)); [ $tries -lt 600 ] || exit 76
             done
             {fill} 2>/dev/null
             wait $recorder; code=$?
             cp \"$DISK/a.hitch\" '{1}/a.hitch'; exit $code",
            disk.display(),
            folder.path().display()
        );
        let full = [disk.as_path()];
        let output = among_full_disks(&full, &home, &script).output();
        let Some((output, errors)) = permitted(name, output) else { return };
        assert!(output.status.success(), "{engine}: {:?}: {errors}", output.status);
        let ended = errors.lines().filter(|line| line.contains("the recording ended after"));
        assert_eq!(ended.count(), 1, "{engine}: {errors}");
        let is_full =
            errors.contains("the disk is nearly full") || errors.contains("No space left");
        assert!(is_full && !errors.contains("panicked"), "{errors}");
        let trace = unhitch_formats::open(&folder.path().join("a.hitch")).unwrap();
        assert!(trace.samples.len() + trace.switches.len() > 10);
    }
}

#[test]
fn a_recording_that_fits_nowhere_lists_the_reason_for_each_place() {
    let name = "a_recording_that_fits_nowhere_lists_the_reason_for_each_place";
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let full = [Path::new("/var/lib"), Path::new("/var/tmp"), home.as_path()];
    let script = "cd \"$HOME\"; $UNHITCH record --for 0.3s";
    let Some((output, errors)) = permitted(name, among_full_disks(&full, &home, script).output())
    else {
        return;
    };
    assert_eq!(output.status.code(), Some(1), "{errors}");
    for words in ["could not be written anywhere", "home", "/var/lib", "/var/tmp", "No space left"]
    {
        assert!(errors.contains(words), "{words}: {errors}");
    }
}

#[test]
fn a_watching_recorder_keeps_what_it_cannot_write() {
    let name = "a_watching_recorder_keeps_what_it_cannot_write";
    let folder = tempfile::tempdir().unwrap();
    let (disk, home) = (folder.path().join("disk"), folder.path().join("home"));
    std::fs::create_dir(&home).unwrap();
    let socket = Path::new("/run/unhitch");
    let full = [disk.as_path(), Path::new("/var/lib"), Path::new("/var/tmp"), &home, socket];
    // The requested save fails; then space is freed, and the save is retried at the end.
    let script = format!(
        "mount -o remount,size=1m tmpfs /run/unhitch
         $UNHITCH watch -o '{0}' --buffer 1M & watcher=$!
         tries=0
         until [ -S /run/unhitch/control.sock ]; do sleep 0.1; tries=$((tries+1)); [ $tries -lt 200 ] || exit 76; done
         $UNHITCH save --note kept && exit 75
         mount -o remount,size=64m tmpfs '{0}'
         kill -INT $watcher
         wait $watcher || exit 74
         cp '{0}'/*.hitch '{1}'/saved.hitch",
        disk.display(),
        folder.path().display()
    );
    let mut command = among_full_disks(&full, &home, &script);
    // A shell ignores Ctrl-C in background programs, but it must reach this one.
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let begun = Instant::now();
    let Some((output, errors)) =
        permitted(name, child.and_then(std::process::Child::wait_with_output))
    else {
        return;
    };
    assert!(begun.elapsed() < Duration::from_secs(120));
    assert!(output.status.success(), "{:?}: {errors}", output.status);
    assert!(
        errors.contains("could not be written anywhere") && errors.contains("kept in memory"),
        "{errors}"
    );
    assert_eq!(
        unhitch_formats::open(&folder.path().join("saved.hitch")).unwrap().meta.notes,
        "kept"
    );
}
