//! A channel that takes two letters (bounded channel of crossbeam). Main sends one every 20 ms, and the thread
//! "printer" prints them. When the file of the argument appears, the next one takes long.
#[path = "../beat.rs"]
mod beat;

use crossbeam_channel::{bounded, Receiver, Sender};
use std::time::Duration;

#[inline(never)]
fn print_letter(duration: Duration) {
    beat::compute(duration);
}

#[inline(never)]
fn print_letters(letters: &Receiver<u64>, flag: &str) {
    for _ in letters {
        print_letter(Duration::from_millis(if beat::told(flag) { 1300 } else { 1 }));
    }
}

#[inline(never)]
fn send_letter(letters: &Sender<u64>) {
    letters.send(7).unwrap();
}

fn main() {
    let flag = std::env::args().nth(1).unwrap();
    let (send, receive) = bounded(2);
    let printer = beat::start("printer", move || print_letters(&receive, &flag));
    println!("{{\"victim\": {}, \"printer\": {printer}}}", beat::thread_id());
    beat::rhythm(|| send_letter(&send));
}
