//! Speed of each way to search a bitmap: rates with divan, then the ratios quoted in the
//! documentation, measured in turns. `cargo bench -p unhitch-lab --bench search`; add `-- ratios`
//! to get only the ratios.

use divan::Bencher;
use divan::counter::BytesCount;
use std::hint::black_box;
use std::time::Instant;
use unhitch_lab::bitmap::Bitmap;
use unhitch_lab::search::{Way, find_clear_run};

/// Longer than any run in the bitmaps, so that each search covers the whole bitmap.
const LEN: usize = 1 << 30;
const ROUNDS: usize = 31;

struct Case {
    name: &'static str,
    map: fn() -> Bitmap,
}

const CASES: [Case; 8] = [
    Case { name: "full, 16 KiB", map: || full(16 << 10) },
    Case { name: "full, 1 MiB", map: || full(1 << 20) },
    Case { name: "full, 64 MiB", map: || full(64 << 20) },
    Case { name: "empty, 16 KiB", map: || Bitmap::new(16 << 13) },
    Case { name: "random", map: || words(|_, noise| noise) },
    Case { name: "fragmented", map: || Bitmap::fragmented(16, 65_536, 64) },
    Case {
        name: "a hole in every 5th word",
        map: || words(|at, _| if at % 5 == 0 { !1 } else { u64::MAX }),
    },
    Case {
        name: "a hole here and there",
        map: || words(|_, noise| if noise >> 59 == 0 { !(1 << (noise & 63)) } else { u64::MAX }),
    },
];

fn full(bytes: usize) -> Bitmap {
    Bitmap::from_words(vec![u64::MAX; bytes / 8], bytes * 8)
}

/// A bitmap of 128 KiB, with each word computed from its index and noise.
fn words(word: fn(usize, u64) -> u64) -> Bitmap {
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |at| {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        word(at, noise)
    };
    let words: Vec<u64> = (0..16_384).map(&mut next).collect();
    let bits = words.len() * 64;
    Bitmap::from_words(words, bits)
}

fn main() {
    if !std::env::args().any(|argument| argument == "ratios") {
        divan::main();
    }
    ratios();
}

#[divan::bench(args = Way::ALL.map(Way::name), consts = [0, 1, 2, 3, 4, 5, 6, 7])]
fn search<const CASE: usize>(bencher: Bencher, way: &str) {
    let (map, way) = ((CASES[CASE].map)(), Way::named(way).unwrap_or(Way::Word));
    bencher
        .counter(BytesCount::new(map.words().len() * 8))
        .bench(|| find_clear_run(black_box(&map), way, 0, LEN));
}

/// Every round measures all ways, one after another. Ratios use the fastest rounds, which nothing
/// has disturbed.
fn ratios() {
    println!(
        "\n{:<26} {}   vector ÷ loop32   vector ÷ word",
        "GB/s",
        Way::ALL.map(|way| format!("{:>8}", way.name())).concat()
    );
    for case in &CASES {
        let map = (case.map)();
        let bytes = (map.words().len() * 8) as f64;
        let repeats = ((2_u64 << 20) / bytes as u64).max(1);
        let mut fastest_ns = [f64::INFINITY; Way::ALL.len()];
        for round in 0..ROUNDS {
            for turn in 0..Way::ALL.len() {
                let way = Way::ALL[(round + turn) % Way::ALL.len()];
                let fastest_ns = &mut fastest_ns[way as usize];
                // Searching bit by bit is slow enough.
                let repeats = if matches!(way, Way::Bit | Way::Loop32) { 1 } else { repeats };
                let start = Instant::now();
                (0..repeats)
                    .for_each(|_| assert_eq!(find_clear_run(black_box(&map), way, 0, LEN), None));
                *fastest_ns = fastest_ns.min(start.elapsed().as_nanos() as f64 / repeats as f64);
            }
        }
        let rate = |way: Way| bytes / fastest_ns[way as usize];
        let vectors = Way::ALL
            .into_iter()
            .filter(|way| way.is_possible() && *way as usize > Way::Word as usize);
        let (best, worst) =
            vectors.map(rate).fold((0.0_f64, f64::INFINITY), |(best, worst), rate| {
                (best.max(rate), worst.min(rate))
            });
        let rates = Way::ALL.map(|way| {
            if way.is_possible() { format!("{:>8.2}", rate(way)) } else { format!("{:>8}", "–") }
        });
        let against = |of: Way| format!("{:.2} … {:.2}", worst / rate(of), best / rate(of));
        println!(
            "{:<26} {}   {:>15}   {:>13}",
            case.name,
            rates.concat(),
            against(Way::Loop32),
            against(Way::Word)
        );
    }
}
