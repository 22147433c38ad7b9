//! Clients of a recorder that are other users.

use crate::recorder::TIMEOUT;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Runs as another user, in one group, on a thread of its own, which stays so.
pub fn as_member<T: Send + 'static>(group: u32, run: impl FnOnce() -> T + Send + 'static) -> T {
    use rustix::process::{Gid, Uid};
    let member = std::thread::spawn(move || {
        let (gid, uid) = (Gid::from_raw(4711), Uid::from_raw(4711));
        rustix::thread::set_thread_groups(&[Gid::from_raw(group)]).unwrap();
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        run()
    });
    member.join().unwrap()
}

/// The answer to one request; `None` if the connection was cut.
pub fn ask(socket: &str, request: &Value) -> Option<Value> {
    let mut client = UnixStream::connect(socket).ok()?;
    client.write_all(format!("{request}\n").as_bytes()).ok()?;
    let mut line = String::new();
    BufReader::new(client).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// The same, once the request no longer comes too fast.
pub fn ask_until_taken(socket: &str, request: &Value) -> Value {
    let begun = Instant::now();
    loop {
        let answer = ask(socket, request).unwrap();
        let Some(wait) = answer["retry_after_ms"].as_u64() else { return answer };
        assert!(begun.elapsed() < TIMEOUT, "{answer}");
        std::thread::sleep(Duration::from_millis(wait + 1));
    }
}
