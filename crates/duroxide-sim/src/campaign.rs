//! Many seeds on all cores, or one with everything that happens.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use duroxide_sim::{Backing, Counters, Protection, Report, Setup, simulate};

use crate::say;
use crate::shrink::{command, shrink};

/// Seeds that once failed, with the reason why they are kept.
const KEPT_SEEDS: &str = include_str!("../seeds.txt");
/// Fewer seeds than this need not show everything that is important.
const SEEDS_THAT_SHOW_EVERYTHING: u64 = 1_000;
/// Failing seeds that are made small; the others are only named.
const SHRUNK_FAILURES: usize = 3;
/// How often a long run says how far it is.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// Runs one seed and prints its trace.
pub(crate) fn one(setup: Setup) -> ExitCode {
    let seed = setup.seed;
    let report = simulate(setup.clone());
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
    tell(&report, &setup);
    ExitCode::FAILURE
}

/// Runs the kept seeds and many others.
pub(crate) fn many(from: u64, count: u64, on: Option<Backing>) -> ExitCode {
    let mut setups = match kept() {
        Ok(kept) => kept.into_iter().flat_map(|seed| on_each(on, &Setup::of_seed(seed))).collect::<Vec<_>>(),
        Err(message) => {
            say(&message);
            return ExitCode::FAILURE;
        }
    };
    setups.extend((from..from.saturating_add(count)).map(|seed| {
        let in_turn = if seed.is_multiple_of(2) { Backing::Rules } else { Backing::Memory };
        Setup { backing: on.unwrap_or(in_turn), ..Setup::of_seed(seed) }
    }));
    let begun = Instant::now();
    let All { counters, failed, hash } = run_all(&setups);
    for (place, report) in failed.iter().enumerate() {
        let setup = Setup { backing: report.backing, ..Setup::of_seed(report.seed) };
        if place < SHRUNK_FAILURES {
            tell(report, &setup);
            let (small, report) = shrink(&setup);
            say("made small:");
            tell(&report, &small);
        } else {
            say(&format!("{} FAILED", name(report)));
        }
    }
    for line in counters.lines() {
        say(&line);
    }
    let took = begun.elapsed().as_secs_f64();
    let on_rules = setups.iter().filter(|setup| setup.backing == Backing::Rules).count();
    let (runs, failures) = (setups.len(), failed.len());
    say(&format!(
        "{runs} seeds in {took:.1} s, {on_rules} of them on the rules, {failures} failed; hash of all {hash:016x}"
    ));
    if !failed.is_empty() {
        say("keep a seed that failed, with its cause, in crates/duroxide-sim/seeds.txt");
    }
    let never = counters.never_happened();
    if count >= SEEDS_THAT_SHOW_EVERYTHING && !never.is_empty() {
        say(&format!("never happened, so the run shows too little: {}", never.join("; ")));
        return ExitCode::FAILURE;
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Switches each protection off and looks for the first seed that shows what it protects from.
pub(crate) fn protections(seeds: u64, on: Option<Backing>) -> ExitCode {
    let without = |protection| Setup { without: Some(protection), ..Setup::of_seed(1) };
    let setups: Vec<Setup> =
        Protection::ALL.into_iter().flat_map(|protection| on_each(on, &without(protection))).collect();
    let next = AtomicUsize::new(0);
    let missed = AtomicBool::new(false);
    on_all_cores(|| {
        while let Some(setup) = setups.get(next.fetch_add(1, Ordering::SeqCst)) {
            let found = (1..=seeds).find_map(|seed| {
                let report = simulate(Setup { seed, ..setup.clone() });
                report.failures.first().map(|failure| (seed, failure.clone()))
            });
            let protection = setup.without.map_or_else(String::new, |protection| format!("{protection:?}"));
            let protection = format!("{protection} on {}", setup.backing.word());
            match found {
                Some((seed, failure)) => {
                    let failure = failure.lines().next().unwrap_or_default();
                    let shown: String = failure.chars().take(160).collect();
                    say(&format!("{protection}: found by seed {seed}: {shown}"));
                }
                None => {
                    missed.store(true, Ordering::SeqCst);
                    say(&format!("{protection}: NOT FOUND within {seeds} seeds"));
                }
            }
        }
    });
    if missed.into_inner() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn tell(report: &Report, setup: &Setup) {
    let name = name(report);
    for failure in &report.failures {
        say(&format!("{name} FAILED {failure}"));
    }
    say(&format!("  again: {}", command(setup)));
}

/// The setup on the store that is asked for, or on each of them.
fn on_each(on: Option<Backing>, setup: &Setup) -> Vec<Setup> {
    let backings = Backing::ALL.into_iter().filter(|backing| on.is_none_or(|on| on == *backing));
    backings.map(|backing| Setup { backing, ..setup.clone() }).collect()
}

fn name(report: &Report) -> String {
    format!("seed {} on {}", report.seed, report.backing.word())
}

/// What came of many seeds.
#[derive(Default)]
struct All {
    counters: Counters,
    /// In the order of their seeds.
    failed: Vec<Report>,
    /// Of all traces, in whatever order they were made.
    hash: u64,
}

/// Each seed is simulated on one thread; several at a time, as there are cores.
fn run_all(setups: &[Setup]) -> All {
    let next = AtomicUsize::new(0);
    let said = AtomicU64::new(0);
    let begun = Instant::now();
    let all = Mutex::new(All::default());
    on_all_cores(|| {
        loop {
            let place = next.fetch_add(1, Ordering::SeqCst);
            let Some(setup) = setups.get(place) else { return };
            let report = simulate(setup.clone());
            let mut all = all.lock().expect("no thread panics while it holds the lock");
            all.counters.add(&report.counters);
            all.hash = all.hash.wrapping_add(report.hash);
            if !report.failures.is_empty() {
                say(&format!("{} FAILED {}", name(&report), report.failures[0]));
                all.failed.push(report);
            }
            let minutes = begun.elapsed().as_secs() / SAY_EVERY.as_secs();
            if said.fetch_max(minutes, Ordering::SeqCst) < minutes {
                say(&format!(
                    "after {minutes} min: {place} of {} seeds, {} failed",
                    setups.len(),
                    all.failed.len()
                ));
            }
        }
    });
    let mut all = all.into_inner().expect("every thread has ended");
    all.failed.sort_by_key(|report| report.seed);
    all
}

fn on_all_cores(work: impl Fn() + Sync) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(&work);
        }
    });
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
