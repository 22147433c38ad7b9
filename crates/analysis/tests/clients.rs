//! Waits of clients for an answer, as they were recorded, where an event loop has called the client.

use crate::programs::{POLL, wait};
use unhitch_analysis::WaitClass;

/// GTK 3.24 and GIO 2.74, by Python 3.11: a handler asks a service and waits for the answer.
#[test]
fn regression_what_a_handler_of_gtk_asks_on_the_bus_is_not_its_loops_wait() {
    let handler = [
        "libglib-2.0.so.0.7400.6+0x5491d",
        "libglib-2.0.so.0.7400.6!g_main_loop_run",
        "libgio-2.0.so.0.7400.6!g_dbus_connection_send_message_with_reply_sync",
        "libgio-2.0.so.0.7400.6+0x10aab2",
        "libgio-2.0.so.0.7400.6!g_dbus_connection_call_sync",
        "libffi.so.8.1.2+0x6f79",
        "libffi.so.8.1.2!ffi_call",
        "_gi.cpython-311-x86_64-linux-gnu.so+0x27de5",
        "python3.11!_PyObject_MakeTpCall",
        "editor.py!check_spelling",
        "python3.11!_PyEval_EvalFrameDefault",
        "_gi.cpython-311-x86_64-linux-gnu.so+0x1f2aa",
        "libglib-2.0.so.0.7400.6!g_main_context_dispatch",
        "libglib-2.0.so.0.7400.6!g_main_loop_run",
        "libgtk-3.so.0.2406.32!gtk_main",
        "libffi.so.8.1.2!ffi_call",
        "editor.py!<module>",
        "python3.11!Py_BytesMain",
    ];
    let (class, words, function) = wait(&[&POLL, &handler]);
    assert_eq!(
        (class, words.as_str(), function.as_str()),
        (WaitClass::Ipc, "answer on D-Bus", "check_spelling")
    );
}
