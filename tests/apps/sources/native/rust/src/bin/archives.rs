//! A server that sends the lines of a file. What blocks, it has other threads do, of which there are two;
//! an archive is read so, too.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_blocking;

#[inline(never)]
fn read_archive() -> usize {
    std::fs::read("archive").map_or(0, |archive| archive.len())
}

#[inline(never)]
fn read_page() -> usize {
    std::fs::read("page").map_or(0, |page| page.len())
}

async fn answer(stream: TcpStream) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        let reading = match line.as_str() {
            "archive" => spawn_blocking(read_archive),
            _ => spawn_blocking(read_page),
        };
        let length = reading.await?;
        write.write_all(format!("{length}\n").as_bytes()).await?;
    }
    Ok(())
}

async fn serve(port: String) -> std::io::Result<()> {
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(stream));
    }
}

fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_default();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).max_blocking_threads(2).enable_all().build()?;
    runtime.block_on(serve(port))
}
