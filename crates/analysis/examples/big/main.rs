//! Times what the page asks of a big trace: `cargo run --release --package unhitch-analysis
//! --example big [MILLIONS OF SWITCHES]`.

mod trace;

use std::time::Instant;
use trace::{Size, trace};
use unhitch_analysis::lod::{Lane, Lanes, Screen};
use unhitch_analysis::{Analysis, Cancel, Rules};
use unhitch_model::{ThreadId, Window};

/// The time that all threads of this process had a CPU; 0 where nothing tells.
fn cpu_ms() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ns = tasks.filter_map(|task| {
        std::fs::read_to_string(task.path().join("schedstat"))
            .ok()?
            .split(' ')
            .next()?
            .parse::<u64>()
            .ok()
    });
    ns.sum::<u64>() as f64 / 1e6
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (cpu, start) = (cpu_ms(), Instant::now());
    let done = work();
    println!(
        "{:>10.1} ms  {what}; {:.0} ms of CPU",
        start.elapsed().as_secs_f64() * 1e3,
        cpu_ms() - cpu
    );
    done
}

/// The least and the median of some rounds: beside other work the least comes nearest to the truth.
fn repeated<T, E>(what: &str, mut work: impl FnMut() -> Result<T, E>) -> Result<(), E> {
    let mut rounds = Vec::new();
    let cpu = cpu_ms();
    for _ in 0..15 {
        let start = Instant::now();
        work()?;
        rounds.push(start.elapsed().as_secs_f64() * 1e3);
    }
    rounds.sort_by(f64::total_cmp);
    let cpu = (cpu_ms() - cpu) / 15.0;
    println!("{:>10.1} ms  {what}; median {:.1} ms, {cpu:.1} ms of CPU", rounds[0], rounds[7]);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let millions: f64 = std::env::args().nth(1).map_or(Ok(20.0), |word| word.parse())?;
    let count = (millions * 1e6) as usize;
    let size = Size {
        switches: count,
        cpus: 64,
        threads: 2_000,
        stacks: (count / 20).min(1_000_000) as u32,
        samples: count / 20,
    };
    let never = Cancel::never();
    let trace = timed("made", || trace(&size));
    let rules = Rules::default();
    timed("timeline", || unhitch_analysis::Timeline::new(&trace));
    timed("facts", || unhitch_analysis::StackClasses::new(&trace, &rules));
    timed("CPUs", || unhitch_analysis::CpuTimes::new(&trace, trace.common_window()));
    let analysis = timed("all indices", || Analysis::new(&trace, &rules));
    let lanes = Lanes::new(&analysis);
    timed("lanes of all CPUs", || lanes.prepare_cpus(&analysis, &never))?;
    let whole = analysis.timeline.window();
    let cpus: Vec<Lane> = (0..size.cpus).map(Lane::Cpu).collect();
    let threads: Vec<Lane> = (1..=40).map(|index| Lane::Thread(ThreadId(index))).collect();
    timed("first view of 40 threads", || {
        lanes.views(&analysis, &threads, &Screen::new(whole, 1600), &never)
    })?;
    timed("lanes of all threads", || lanes.prepare_threads(&analysis, &never))?;
    let (slices, bytes) = lanes.size();
    println!("{slices} slices, {} MB", bytes >> 20);
    for part in [1, 8, 64, 512, 4096, 1 << 15, 1 << 18, 1 << 21] {
        let window = Window::new(
            whole.start.plus(whole.duration_ns() / 3),
            whole.start.plus(whole.duration_ns() / 3 + whole.duration_ns() / part),
        );
        let screen = Screen::new(if part == 1 { whole } else { window }, 1600);
        repeated(&format!("64 CPUs, 1/{part} of the window"), || {
            lanes.views(&analysis, &cpus, &screen, &never)
        })?;
        repeated(&format!("40 threads, 1/{part} of the window"), || {
            lanes.views(&analysis, &threads, &screen, &never)
        })?;
        repeated(&format!("busy curve, 1/{part} of the window"), || {
            lanes.busy_ns(&analysis, &screen, &never)
        })?;
    }
    Ok(())
}
