//! Many seeds on all cores, or one with everything that happens.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use duroxide_sim::{Counters, Keep, Report, Setup, simulate};

use crate::say;

/// Seeds that once failed, with the reason why they are kept.
const KEPT_SEEDS: &str = include_str!("../seeds.txt");
/// Fewer seeds than this need not show everything that is important.
const SEEDS_THAT_SHOW_EVERYTHING: u64 = 200;

/// Runs one seed and prints its trace.
pub(crate) fn one(seed: u64) -> ExitCode {
    let report = simulate(Setup { keep: Keep::Lines, ..Setup::of_seed(seed) });
    for line in &report.lines {
        say(line);
    }
    for line in report.counters.lines() {
        say(&line);
    }
    say(&format!("seed {seed}: hash {:016x}, {:?} of virtual time", report.hash, report.virtual_time));
    if report.failures.is_empty() {
        say("nothing was violated");
        return ExitCode::SUCCESS;
    }
    tell(&report);
    ExitCode::FAILURE
}

/// Runs the kept seeds and many others.
pub(crate) fn many(from: u64, count: u64) -> ExitCode {
    let mut seeds = match kept() {
        Ok(kept) => kept,
        Err(message) => {
            say(&message);
            return ExitCode::FAILURE;
        }
    };
    seeds.extend(from..from.saturating_add(count));
    let begun = Instant::now();
    let reports = run_all(&seeds);
    let mut counters = Counters::default();
    let mut failed = Vec::new();
    for report in &reports {
        counters.add(&report.counters);
        if !report.failures.is_empty() {
            failed.push(report.seed);
            tell(report);
        }
    }
    for line in counters.lines() {
        say(&line);
    }
    say(&format!("{} seeds in {:.1} s, {} failed", seeds.len(), begun.elapsed().as_secs_f64(), failed.len()));
    let never = counters.never_happened();
    if count >= SEEDS_THAT_SHOW_EVERYTHING && !never.is_empty() {
        say(&format!("never happened, so the run shows too little: {}", never.join("; ")));
        return ExitCode::FAILURE;
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(report: &Report) {
    let seed = report.seed;
    for failure in &report.failures {
        say(&format!("seed {seed} FAILED {failure}"));
    }
    say(&format!("  again: cargo run -p duroxide-sim -- --seed {seed}"));
}

/// Each seed is simulated on one thread; several at a time, as there are cores. Reports come in their order.
fn run_all(seeds: &[u64]) -> Vec<Report> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let reports = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..cores.min(seeds.len()) {
            scope.spawn(|| {
                while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let index_and_report = (seed, simulate(Setup::of_seed(seed)));
                    reports.lock().expect("no thread panics while it holds the lock").push(index_and_report);
                }
            });
        }
    });
    let mut reports = reports.into_inner().expect("every thread has ended");
    reports.sort_by_key(|(seed, _)| seeds.iter().position(|known| known == seed));
    reports.into_iter().map(|(_, report)| report).collect()
}

/// The kept seeds: one a line, behind it why.
fn kept() -> Result<Vec<u64>, String> {
    let mut seeds = Vec::new();
    for line in KEPT_SEEDS.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let (seed, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let seed = seed.parse().map_err(|_| format!("seeds.txt: '{seed}' is no seed"))?;
        if reason.trim().is_empty() {
            return Err(format!("seeds.txt: seed {seed} does not say why it is kept"));
        }
        seeds.push(seed);
    }
    Ok(seeds)
}
