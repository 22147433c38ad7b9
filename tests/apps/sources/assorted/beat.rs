// What the programs in Rust have in common; they need nothing but the standard library.
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_millis(20);
const SLOW_NS: i64 = 100_000_000;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    fn gettid() -> i32;
}

fn now_ns() -> i64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(1, &mut time) };
    time.seconds * 1_000_000_000 + time.nanoseconds
}

pub fn thread_id() -> i32 {
    unsafe { gettid() }
}

pub fn told(flag: &str) -> bool {
    std::fs::remove_file(flag).is_ok()
}

#[inline(always)]
pub fn compute(duration: Duration) -> u64 {
    let begin = Instant::now();
    let mut value = 7u64;
    while begin.elapsed() < duration {
        for _ in 0..10_000 {
            value = std::hint::black_box(value.wrapping_mul(6364136223846793005).wrapping_add(1));
        }
    }
    value
}

pub fn start(name: &str, body: impl FnOnce() + Send + 'static) -> i32 {
    let (tell, tid) = std::sync::mpsc::channel();
    let run = move || {
        tell.send(thread_id()).unwrap();
        body();
    };
    std::thread::Builder::new().name(name.into()).spawn(run).unwrap();
    tid.recv().unwrap()
}

pub fn rhythm(mut operation: impl FnMut()) -> ! {
    loop {
        let from = now_ns();
        operation();
        let to = now_ns();
        if to - from >= SLOW_NS {
            println!("{{\"from\": {from}, \"to\": {to}}}");
        }
        std::thread::sleep(PERIOD);
    }
}
