// A table of words that is made when somebody first needs it (OnceLock). The thread "first" needs it
// when the file of the argument appears, and main from then on, every 20 ms.
mod beat;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::OnceLock;
use std::time::Duration;

static WORDS: OnceLock<Vec<u64>> = OnceLock::new();
static BEGUN: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn build_words() -> Vec<u64> {
    BEGUN.store(true, SeqCst);
    vec![beat::compute(Duration::from_millis(1200))]
}

#[inline(never)]
fn look_up_word() {
    if BEGUN.load(SeqCst) {
        std::hint::black_box(WORDS.get_or_init(build_words)[0]);
    }
}

fn main() {
    let flag = std::env::args().nth(1).unwrap();
    let first = beat::start("first", move || {
        while !beat::told(&flag) {
            std::thread::sleep(Duration::from_millis(10));
        }
        WORDS.get_or_init(build_words);
        std::thread::sleep(Duration::from_secs(60));
    });
    println!("{{\"victim\": {}, \"first\": {first}}}", beat::thread_id());
    beat::rhythm(look_up_word);
}
