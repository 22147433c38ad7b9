//! Runs a lab program without the rest of Unhitch: `cargo run -p unhitch-lab --example lab --
//! starve [SECONDS]`. The last line of output is the outcome as JSON.

use std::error::Error;
use unhitch_lab::{Options, PROGRAMS, program};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(program) = arguments.next().as_deref().and_then(program) else {
        for program in PROGRAMS {
            println!("{:12} {}", program.name, program.summary);
        }
        return Ok(());
    };
    let mut options = Options::default();
    if let Some(seconds) = arguments.next() {
        options.seconds = seconds.parse()?;
    }
    println!("{}", serde_json::to_string(&(program.run)(&options)?)?);
    Ok(())
}
