//! Runs the parts: some alone, then the others in two lanes side by side.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::built::Built;
use super::parts::{Part, When, choose, everything, quick};
use super::stage::{Output, Priority, Stage};
use super::table::{Outcome, Row, table};
use super::work::carry_out;
use crate::say;

/// The argument that chooses the quick run.
const QUICK: &str = "--quick";

/// What the parts of one run share.
pub(super) struct Run<'run> {
    root: &'run Path,
    pub(super) built: OnceLock<Built>,
    failed: AtomicBool,
}

impl Run<'_> {
    /// What was built.
    pub(super) fn built(&self) -> Result<&Built, String> {
        self.built.get().ok_or_else(|| "nothing was built".to_string())
    }

    /// From here on nothing begins.
    pub(super) fn note_failure(&self) {
        self.failed.store(true, Ordering::SeqCst);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
}

/// Runs all parts, or the named ones, or with `--quick` those of the quick run; whether all of them passed.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> bool {
    let (parts, names) = match arguments {
        [QUICK, names @ ..] => (quick(), names),
        names => (everything(), names),
    };
    match choose(parts, names) {
        Ok(parts) => run_parts(root, &parts),
        Err(reason) => {
            say(&reason);
            false
        }
    }
}

fn run_parts(root: &Path, parts: &[Part]) -> bool {
    let run = Run { root, built: OnceLock::new(), failed: AtomicBool::new(false) };
    let started = Instant::now();
    let of = |when: When| parts.iter().filter(|part| part.when == when).collect::<Vec<_>>();
    let (front, beside) = (of(When::Front), of(When::Beside));
    // Without others to write at the same time, output is shown as it comes.
    let output = if front.is_empty() || beside.is_empty() { Output::Shown } else { Output::Kept };
    let low = if front.is_empty() { Priority::Normal } else { Priority::Low };

    let mut done = lane(&run, &of(When::Alone), Output::Shown, Priority::Normal);
    std::thread::scope(|scope| {
        let others = scope.spawn(|| lane(&run, &beside, output, low));
        done.extend(lane(&run, &front, output, Priority::Normal));
        done.extend(others.join().expect("a lane does not panic: it reports what fails"));
    });
    say(&table(&done, started.elapsed()));
    for row in &done {
        if let Outcome::Failed { reason, .. } = &row.outcome {
            say(&format!("part '{}' failed: {reason}", row.name));
        }
    }
    !run.has_failed()
}

/// Runs these parts one after the other, until one of the run fails.
fn lane(run: &Run<'_>, parts: &[&Part], output: Output, priority: Priority) -> Vec<Row> {
    let mut rows = Vec::new();
    for part in parts {
        let outcome = if run.has_failed() {
            Outcome::NotRun
        } else {
            let started = Instant::now();
            let stage = Stage { root: run.root, name: part.name, output, priority };
            let done = carry_out(run, stage, &part.work);
            let took = started.elapsed();
            match done {
                Ok(()) => Outcome::Ok { took },
                Err(reason) => {
                    run.note_failure();
                    Outcome::Failed { took, reason }
                }
            }
        };
        rows.push(Row { name: part.name, outcome });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::parts::Work;
    use super::*;

    #[test]
    fn an_unknown_part_is_refused_before_anything_runs() {
        assert!(!run(Path::new("/nowhere"), &["fmt", "levitation"]));
        assert!(!run(Path::new("/nowhere"), &["--quick", "soak"]));
    }

    #[test]
    fn after_a_failure_nothing_begins() {
        let run = Run { root: Path::new("/"), built: OnceLock::new(), failed: AtomicBool::new(false) };
        let part = |name| Part { name, when: When::Alone, work: Work::Tests };
        let rows = lane(&run, &[&part("first"), &part("second")], Output::Shown, Priority::Normal);
        let [first, second] = rows.as_slice() else { panic!("a row for each part") };
        assert!(
            matches!(&first.outcome, Outcome::Failed { reason, .. } if reason == "nothing was built"),
            "the first one fails"
        );
        assert!(matches!(second.outcome, Outcome::NotRun), "the second one is not run");
        assert!(run.has_failed());
    }
}
