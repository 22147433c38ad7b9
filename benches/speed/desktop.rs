//! A desktop in use, of real programs: headless Chromium that animates, Node.js that serves itself,
//! three threads of Python that sleep and wait for each other.

use anyhow::Context;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Sixty pictures a second, and a timer.
const PAGE: &str = r#"<!doctype html><canvas id=c width=600 height=400></canvas><script>
const g = document.getElementById("c").getContext("2d");
let n = 0;
function draw() {
  g.fillStyle = `hsl(${n++ % 360} 80% 50%)`;
  g.fillRect((n * 7) % 560, (n * 5) % 360, 40, 40);
  requestAnimationFrame(draw);
}
draw();
setInterval(() => (document.title = String(n)), 20);
</script>"#;

/// A hundred requests a second to itself, and timers.
const NODE: &str = r"
const http = require('node:http');
const server = http.createServer((_, answer) => setTimeout(() => answer.end('x'.repeat(500)), 2));
server.listen(0, '127.0.0.1', () => {
  const options = { port: server.address().port, host: '127.0.0.1' };
  setInterval(() => http.get(options, (answer) => answer.resume()), 10);
});
setInterval(() => {}, 4);
";

const PYTHON: &str = r"
import queue, threading, time
lock, jobs = threading.Lock(), queue.Queue()
def give():
    while True:
        time.sleep(0.005)
        jobs.put(sum(range(200)))
def take():
    while True:
        jobs.get()
        with lock:
            sum(range(2000))
def tick():
    while True:
        time.sleep(0.003)
        with lock:
            sum(range(500))
for work in (give, take, tick):
    threading.Thread(target=work, daemon=True).start()
time.sleep(3600)
";

/// Until the browser has drawn for a while.
const WARM_UP: Duration = Duration::from_secs(6);

/// The programs; they end with it.
pub struct Desktop(Vec<Child>);

impl Desktop {
    pub fn start(folder: &Path) -> anyhow::Result<Self> {
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        fs::write(path("page.html"), PAGE)?;
        let browser = ["chromium", "chromium-browser", "google-chrome"]
            .into_iter()
            .find(|name| Command::new(name).arg("--version").output().is_ok())
            .context("there is no Chromium")?;
        let profile = format!("--user-data-dir={}", path("profile"));
        let page = format!("file://{}", path("page.html"));
        // Until it is stopped: a browser without a screen that has no task would end at once.
        let task = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"];
        let commands: [(&str, Vec<&str>); 3] = [
            (browser, [&task[..], &[&profile, &page]].concat()),
            ("node", vec!["-e", NODE]),
            ("python3", vec!["-c", PYTHON]),
        ];
        let mut desktop = Self(Vec::new());
        for (program, arguments) in commands {
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
            desktop.0.push(command.stderr(Stdio::null()).spawn().context(program)?);
        }
        std::thread::sleep(WARM_UP);
        for child in &mut desktop.0 {
            anyhow::ensure!(child.try_wait()?.is_none(), "a program of the desktop has ended");
        }
        Ok(desktop)
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Asked nicely, a browser ends its other processes too.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
    }
}
