//! An echo server on one worker: some lines make a task block the worker, or keep a lock.

use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

const LONG: Duration = Duration::from_millis(1200);

/// Computes, and never awaits.
fn render_report() -> u64 {
    let (mut sum, begin) = (1_u64, Instant::now());
    while begin.elapsed() < LONG {
        for n in 0..10_000 {
            sum = std::hint::black_box(sum.wrapping_mul(6364136223846793005).wrapping_add(n));
        }
    }
    sum
}

async fn answer(stream: TcpStream, cache: Arc<Mutex<u64>>) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        match line.as_str() {
            "report" => *cache.lock().await = render_report(),
            "refresh" => {
                let mut cache = cache.lock().await;
                tokio::time::sleep(LONG).await;
                *cache += 1;
            }
            _ => *cache.lock().await += 1,
        }
        write.write_all(format!("{line}\n").as_bytes()).await?;
    }
    Ok(())
}

#[tokio::main(worker_threads = 1)]
async fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_default();
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let cache = Arc::new(Mutex::new(0));
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(stream, cache.clone()));
    }
}
