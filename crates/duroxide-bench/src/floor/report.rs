//! Prints figures as they come and judges each ratio.

use std::time::Duration;

/// What was found so far.
#[derive(Default)]
pub(crate) struct Report {
    failed: Vec<String>,
}

impl Report {
    pub(crate) fn section(&mut self, title: &str) {
        say(&format!("\n{title}"));
    }

    pub(crate) fn figure(&mut self, name: &str, value: impl std::fmt::Display) {
        say(&format!("  {name:<52} {value}"));
    }

    /// A ratio that must not be above its limit.
    pub(crate) fn at_most(&mut self, name: &str, value: f64, limit: f64) {
        self.judge(name, value, limit, value <= limit, "<=");
    }

    /// A ratio that must not be below its limit.
    pub(crate) fn at_least(&mut self, name: &str, value: f64, limit: f64) {
        self.judge(name, value, limit, value >= limit, ">=");
    }

    fn judge(&mut self, name: &str, value: f64, limit: f64, holds: bool, sign: &str) {
        let verdict = if holds { "ok" } else { "FAILED" };
        say(&format!("  {name:<52} {value:8.3}   {sign} {limit}   {verdict}"));
        if !holds {
            self.failed.push(format!("{name}: {value:.3}, must be {sign} {limit}"));
        }
    }

    /// Whether every ratio holds.
    pub(crate) fn finish(self) -> bool {
        for failed in &self.failed {
            say(&format!("FAILED  {failed}"));
        }
        if self.failed.is_empty() {
            say("\nevery ratio holds");
        }
        self.failed.is_empty()
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn say(line: &str) {
    println!("{line}");
}

/// Microseconds, for people.
pub(crate) fn micros(duration: Duration) -> String {
    format!("{:.0} us", duration.as_secs_f64() * 1e6)
}

pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

pub(crate) fn ratio(ours: Duration, theirs: Duration) -> f64 {
    ours.as_secs_f64() / theirs.as_secs_f64()
}
