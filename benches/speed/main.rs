//! Measures everything that the documentation says in figures, against what people use today, and prints one table.
//!
//! `make bench`; or only some parts: `cargo bench --package unhitch --bench speed -- storm ordinary save load why timehist`. Ours and
//! theirs are measured in turns, because a machine changes while one measures: a figure is `median (least … most)` of the rounds, and
//! a ratio is formed within each round. What lacks a privilege or a program is skipped and said so.

#[cfg(target_os = "linux")]
mod cost;
#[cfg(target_os = "linux")]
mod reading;
#[cfg(target_os = "linux")]
mod recorder;
#[cfg(target_os = "linux")]
mod saving;
#[cfg(target_os = "linux")]
mod table;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("The recorder is measured, which is for Linux only.");
}

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if let [load, path] = &words[..]
        && load == "load-file"
    {
        return reading::load(path.as_ref());
    }
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    let folder = tempfile::tempdir()?;
    let perf_data = folder.path().join("perf.data");
    let mut table = table::Table::default();
    let start = std::time::Instant::now();
    let load_before = load_average();

    let mut part = |name: &str, measure: &mut dyn FnMut(&mut table::Table) -> anyhow::Result<()>| {
        if wanted(name)
            && let Err(error) = measure(&mut table)
        {
            table.skipped(name, format!("{error:#}"));
        }
    };
    part("storm", &mut |table| recorder::storm_cost(table, &perf_data));
    part("timehist", &mut |table| reading::timehist(table, &perf_data));
    part("ordinary", &mut recorder::ordinary_cost);
    part("save", &mut |table| saving::save(table, folder.path()));
    if wanted("load") || wanted("why") {
        let big = reading::big_trace(folder.path());
        let big = || big.as_ref().map(std::path::PathBuf::as_path).map_err(|error| anyhow::anyhow!("{error:#}"));
        part("load", &mut |table| reading::loader(table, big()?));
        part("why", &mut |table| reading::answer(table, big()?));
    }
    print!("\n{table}\n{}", machine());
    println!(
        "load average {load_before} before, {} after {:.0} s; a figure is median (least … most)",
        load_average(),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

#[cfg(target_os = "linux")]
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

/// CPUs, kernel and memory, a line each.
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
