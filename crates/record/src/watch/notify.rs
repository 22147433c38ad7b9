//! Tells systemd that the recorder is ready: sd_notify(3), which is one datagram.

use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::os::unix::ffi::OsStrExt;

/// Sends `state`, such as `READY=1`, if systemd waits for it. Errors do not matter: without it,
/// systemd would only wait for longer.
pub(super) fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name),
        _ => SocketAddrUnix::new(std::path::Path::new(&path)),
    };
    let Ok(address) = address else { return };
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    );
    if let Ok(socket) = socket {
        let _ = rustix::net::sendto(&socket, state.as_bytes(), SendFlags::NOSIGNAL, &address);
    }
}
