// A program that complains of something every 20 ms, on its standard error. When the file of the argument
// appears, the thread "exporter" lists all files there at once, which is more than a pipe takes.
#[path = "../assorted/beat.rs"]
mod beat;

#[inline(never)]
fn complain() {
    eprintln!("a file is missing");
}

#[inline(never)]
fn list_files() {
    eprintln!("{}", "file\n".repeat(60_000));
}

fn main() {
    let flag = std::env::args().next_back().unwrap();
    let exporter = beat::start("exporter", move || loop {
        if beat::told(&flag) {
            list_files();
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    });
    println!("{{\"victim\": {}, \"exporter\": {exporter}}}", beat::thread_id());
    beat::rhythm(complain);
}
