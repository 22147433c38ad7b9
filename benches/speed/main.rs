//! Measures every figure in the documentation, compares it with existing tools, and prints one
//! table.
//!
//! `make bench` runs everything; `cargo bench --package unhitch --bench speed -- storm etl` runs
//! parts by name. Ours and theirs alternate, because the machine changes during a measurement. A
//! figure is `median (least … most)` of the rounds, and ratios are computed within each round. What
//! lacks a privilege or a program is skipped, which is reported.

#[cfg(target_os = "linux")]
mod bpf_time;
#[cfg(target_os = "linux")]
mod cost;
#[cfg(target_os = "linux")]
mod desktop;
#[cfg(target_os = "linux")]
mod drawing;
#[cfg(target_os = "linux")]
mod etl;
#[cfg(target_os = "linux")]
mod export;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod page;
#[cfg(target_os = "linux")]
#[path = "../../crates/agent/tests/session/program.rs"]
mod program;
#[cfg(target_os = "linux")]
mod reading;
#[cfg(target_os = "linux")]
mod recorder;
#[cfg(target_os = "linux")]
mod saving;
#[cfg(target_os = "linux")]
mod scan;
#[cfg(target_os = "linux")]
mod service;
#[cfg(target_os = "linux")]
#[path = "../../crates/agent/tests/session/desktop.rs"]
mod session;
#[cfg(target_os = "linux")]
mod table;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("This measures the recorder, which is for Linux only.");
}

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if let [how, path] = &words[..]
        && let Some(measure) = alone(how)
    {
        return measure(path.as_ref());
    }
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    let folder = tempfile::tempdir()?;
    if words == ["serve-big"] {
        return drawing::serve(folder.path());
    }
    let mut table = table::Table::default();
    let start = std::time::Instant::now();
    let (load_before, others_before) = (load_average(), other_recorders());

    let mut part =
        |name: &str, measure: &mut dyn FnMut(&mut table::Table) -> anyhow::Result<()>| {
            if wanted(name)
                && let Err(error) = measure(&mut table)
            {
                table.skipped(name, format!("{error:#}"));
            }
        };
    part("storm", &mut |table| recorder::storm_cost(table, folder.path()));
    part("history", &mut |table| recorder::history(table, folder.path()));
    part("timehist", &mut |table| reading::timehist(table, folder.path()));
    part("ordinary", &mut recorder::ordinary_cost);
    part("save", &mut |table| saving::save(table, folder.path()));
    part("live", &mut |table| live::why(table, folder.path()));
    part("load", &mut |table| {
        for engine in reading::ENGINES {
            let path = reading::record(folder.path(), reading::FOR_LOADING, engine)?;
            reading::loader(table, &path, &format!("a storm by {engine}"))?;
        }
        Ok(())
    });
    part("why", &mut |table| {
        for engine in reading::ENGINES {
            let path = reading::record(folder.path(), reading::FOR_ANSWERING, engine)?;
            reading::answer(table, &path, &format!("a storm by {engine}"))?;
            let path = reading::record_build(folder.path(), engine)?;
            reading::answer(table, &path, &format!("a build by {engine}"))?;
        }
        Ok(())
    });
    part("open", &mut |table| {
        let path = reading::record(folder.path(), reading::FOR_OPENING, "bpf")?;
        reading::opening(table, &path, "a storm by bpf")
    });
    part("service", &mut |table| service::cost(table, folder.path()));
    part("scan", &mut scan::scan);
    part("scan-stall", &mut scan::stall);
    part("etl", &mut |table| etl::reading(table, folder.path()));
    part("export", &mut export::exports);
    part("page", &mut page::page);
    part("drawing", &mut |table| drawing::drawing(table, folder.path()));
    print!("\n{table}\n{}", machine());
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    println!(
        "load average {load_before} before, {} after {minutes:.1} minutes; a figure is median (least … most)",
        load_average()
    );
    for other in others_before.into_iter().chain(other_recorders()) {
        println!("noise: {other} also records this machine, which slows every switch");
    }
    Ok(())
}

/// What a fresh process of this program measures, which does nothing else.
#[cfg(target_os = "linux")]
fn alone(how: &str) -> Option<fn(&std::path::Path) -> anyhow::Result<()>> {
    match how {
        "load-file" => Some(reading::load),
        "view-file" => Some(reading::view),
        "view-newest" => Some(reading::view_newest),
        _ => None,
    }
}

#[cfg(target_os = "linux")]
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

/// CPUs, memory and kernel.
#[cfg(target_os = "linux")]
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |path: &str, name: &str| {
        let text = read(path);
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or(String::new(), |(_, value)| value.trim().to_owned())
    };
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{cpus} CPUs ({}), {}, Linux {}\n",
        field("/proc/cpuinfo", "model name"),
        field("/proc/meminfo", "MemTotal"),
        read("/proc/sys/kernel/osrelease").trim()
    )
}

/// Other processes that have perf events open.
#[cfg(target_os = "linux")]
fn other_recorders() -> Vec<String> {
    let entries =
        |path: std::path::PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
    let is_event = |fd: std::fs::DirEntry| {
        std::fs::read_link(fd.path())
            .is_ok_and(|target| target.ends_with("anon_inode:[perf_event]"))
    };
    entries("/proc".into())
        .filter(|process| process.file_name() != std::process::id().to_string().as_str())
        .filter(|process| entries(process.path().join("fd")).any(is_event))
        .map(|process| {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            format!("{} {}", name.trim(), process.file_name().to_string_lossy())
        })
        .collect()
}
