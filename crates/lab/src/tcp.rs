//! `tcp`: a single-threaded server computes for another client.
//!
//! Every 20 ms, the *ui* sends a request to the *lab-server* process over a loopback connection,
//! and is answered at once. Then a second client, the *reporter* thread, requests a report, which
//! takes the server 400 ms of CPU time. The ui's next request stays in the server's socket until
//! the report is sent. No lock is involved; the ui waits for a message.

use crate::options::Options;
use crate::outcome::{Answer, Outcome, no_cpu_doubt};
use crate::program::Program;
use crate::span::Span;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys::{self, Epoll, Shared};
use crate::ticker::Ticker;
use crate::work::{compute, stay_on_stack};
use std::hint::black_box;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const REQUEST_INTERVAL_NS: u64 = 20_000_000;
const REPORT_NS: u64 = 400_000_000;
/// Requests, one byte each.
const LOOK_UP: u8 = 0;
const REPORT: u8 = 1;

pub(crate) const PROGRAM: Program = Program {
    name: "tcp",
    summary: "a client waits for a single-threaded loopback server, which computes a report for \
              another client",
    answer,
    run,
};

fn answer() -> Answer {
    Answer {
        victim_process: "lab-tcp".into(),
        victim_thread: "ui".into(),
        culprit_process: "lab-server".into(),
        culprit_thread: "lab-server".into(),
        also_named: vec![],
        pattern: "cpu_bound".into(),
        kinds: vec!["event_loop".into(), "unwanted_wait".into()],
        min_duration_ms: 250,
        victim_function: "ask_server".into(),
        release_function: "answer_client".into(),
        culprit_function: "compile_report".into(),
    }
}

struct Service<'a> {
    stage: &'a Stage,
    requests: Ticker,
    /// CPU time of the report in nanoseconds.
    report_cpu_ns: Shared<AtomicU64>,
    ui_waits: OnceLock<Longest>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let service = Service {
        stage: &stage,
        requests: Ticker::new(REQUEST_INTERVAL_NS)?,
        report_cpu_ns: Shared::new(AtomicU64::new(0))?,
        ui_waits: OnceLock::new(),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let (ui, of_ui) = connect(&listener)?;
    let (reporter, of_reporter) = connect(&listener)?;
    drop(listener);
    stage.print(format_args!(
        "ui sends the server a request every {} ms",
        REQUEST_INTERVAL_NS / 1_000_000
    ));
    let service = &service;
    let processes: Vec<Role> =
        vec![role("lab-server", move || service.serve([of_ui, of_reporter]))];
    let roles: Vec<Role> = vec![
        role("ui", move || service.show_entries(ui)),
        role("reader", || service.requests.run(service.stage)),
        role("reporter", move || service.ask_for_report(reporter)),
    ];
    stage.perform_with(processes, roles)?;
    let waits = service.ui_waits.get().copied().unwrap_or_default();
    let cpu_ns = service.report_cpu_ns.load(Ordering::Relaxed);
    stage.print(format_args!(
        "the request at {:.3} s waited {:.3} s for its answer; the server's report took {:.3} s of \
         CPU time",
        stage.seconds_at(waits.span.start_ns),
        waits.span.seconds(),
        cpu_ns as f64 / 1e9,
    ));
    let figures = [("questions", waits.count), ("report_cpu_ms", cpu_ns / 1_000_000)];
    Ok(Outcome::new(&stage, answer(), waits.span, &figures).unless(no_cpu_doubt(
        "the server",
        waits.span,
        cpu_ns,
    )))
}

/// Opens a connection; returns the client's end and the server's end.
fn connect(listener: &TcpListener) -> io::Result<(TcpStream, TcpStream)> {
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    Ok((client, server))
}

impl Service<'_> {
    #[inline(never)]
    fn show_entries(&self, mut server: TcpStream) -> io::Result<()> {
        let mut waits = Longest::default();
        while self.requests.wait(self.stage)?.is_some() {
            let start_ns = sys::monotonic_ns();
            if !ask_server(&mut server, LOOK_UP) {
                break;
            }
            waits.note(Span { start_ns, end_ns: sys::monotonic_ns() });
        }
        let _ = self.ui_waits.set(waits);
        Ok(())
    }

    #[inline(never)]
    fn ask_for_report(&self, mut server: TcpStream) -> io::Result<()> {
        if self.stage.sleep_until(self.stage.hang_start_ns())? {
            self.stage.print(format_args!("reporter requests a report"));
            ask_server(&mut server, REPORT);
        }
        Ok(())
    }

    #[inline(never)]
    fn serve(&self, mut clients: [TcpStream; 2]) -> io::Result<()> {
        let events =
            Epoll::new(&[clients[0].as_fd(), clients[1].as_fd(), self.stage.curtain().as_fd()])?;
        while self.stage.is_open() {
            let Some(client) = events.wait()?.and_then(|index| clients.get_mut(index)) else {
                continue;
            };
            if sys::read_byte(client.as_fd())? == Some(REPORT) {
                self.compile_report();
            }
            answer_client(client);
        }
        Ok(())
    }

    #[inline(never)]
    fn compile_report(&self) {
        let start_ns = sys::thread_cpu_ns();
        let mut report = 1;
        while sys::thread_cpu_ns() - start_ns < REPORT_NS && self.stage.hang_is_on() {
            for _ in 0..10 {
                compute(&mut report);
            }
        }
        black_box(report);
        self.report_cpu_ns.store(sys::thread_cpu_ns() - start_ns, Ordering::Relaxed);
    }
}

/// False if the server has exited.
#[inline(never)]
fn ask_server(server: &mut TcpStream, request: u8) -> bool {
    black_box(
        server.write_all(&[request]).is_ok()
            && matches!(sys::read_byte(server.as_fd()), Ok(Some(_))),
    )
}

#[inline(never)]
fn answer_client(client: &mut TcpStream) {
    // A client that has exited needs no answer.
    let _ = black_box(client.write_all(&[0]));
    stay_on_stack();
}
