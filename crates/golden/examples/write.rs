//! Writes the golden traces, as Linux and as Windows have them: `cargo run -p unhitch-golden
//! --example write -- FOLDER`.

use std::path::PathBuf;
use unhitch_golden::{move_my_mouse, sixty_three_cores, type_an_email};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("which folder?")?);
    let symbols = folder.join("symbols");
    let golden = type_an_email();
    golden.write(&folder.join("type-an-email.hitch"))?;
    golden.write_etl(&folder.join("type-an-email.etl"), &symbols)?;
    println!("{:#?}", golden.figures);
    let golden = move_my_mouse();
    golden.write(&folder.join("move-my-mouse.hitch"))?;
    golden.write_etl(&folder.join("move-my-mouse.etl"), &symbols)?;
    println!("{:#?}", golden.figures);
    let golden = sixty_three_cores();
    golden.write(&folder.join("sixty-three-cores.hitch"))?;
    golden.write_etl(&folder.join("sixty-three-cores.etl"), &symbols)?;
    println!("{:#?}", golden.figures);
    Ok(())
}
