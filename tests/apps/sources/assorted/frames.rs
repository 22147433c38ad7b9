// A camera sends a frame every 20 ms over a channel of four (sync_channel). When the file of the argument
// appears, one frame takes the thread "encoder" more than a second.
mod beat;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

#[inline(never)]
fn encode_frame(long: bool) {
    let duration = if long { 1400 } else { 0 };
    std::hint::black_box(beat::compute(Duration::from_millis(duration)));
}

fn main() {
    let flag = std::env::args().nth(1).unwrap();
    let (camera, frames) = sync_channel::<u64>(4);
    let encoder = beat::start("encoder", move || {
        for _ in frames {
            encode_frame(beat::told(&flag));
        }
    });
    println!("{{\"victim\": {}, \"encoder\": {encoder}}}", beat::thread_id());
    beat::rhythm(|| camera.send(7).unwrap());
}
