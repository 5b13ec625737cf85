//! Runs the tests that were built, as `cargo test` would, in two rows side by side.

use std::path::Path;

use super::built::{Built, Kind, Program};
use super::lanes::Run;
use super::stage::{Output, Stage, plain};
use crate::postgres::TestServer;

/// The package whose tests need a server. They wait for it most of the time, so they run beside the others.
const NEEDS_SERVER: &str = "duroxide-postgres";

/// Runs every one; the first that fails ends both rows.
pub(super) fn run_all(run: &Run<'_>, stage: Stage<'_>, built: &Built) -> Result<(), String> {
    let Rows { with_server, others } = rows(built);
    if with_server.is_empty() {
        return run_row(run, stage, &others, None);
    }
    let server = TestServer::start()?;
    let stage = Stage { output: Output::Kept, ..stage };
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| run_row(run, stage, &with_server, Some(&server)));
        let here = run_row(run, stage, &others, None);
        let there = beside.join().expect("a row does not panic: it reports what fails");
        both(here, there)
    })
}

/// Well only if both are; two reasons are both told.
fn both(one: Result<(), String>, other: Result<(), String>) -> Result<(), String> {
    match (one, other) {
        (Ok(()), Ok(())) => Ok(()),
        (Err(reason), Ok(())) | (Ok(()), Err(reason)) => Err(reason),
        (Err(one), Err(other)) => Err(format!("{one}\nand {other}")),
    }
}

struct Rows<'built> {
    with_server: Vec<&'built Program>,
    others: Vec<&'built Program>,
}

/// Which programs run one after the other, in an order that does not change from run to run.
fn rows(built: &Built) -> Rows<'_> {
    let mut tests: Vec<&Program> = built.of_kind(Kind::Tests).collect();
    tests.sort_by(|one, other| one.source.cmp(&other.source));
    let (with_server, others) =
        tests.into_iter().partition(|program| program.package.ends_with(NEEDS_SERVER));
    Rows { with_server, others }
}

fn run_row(
    run: &Run<'_>,
    stage: Stage<'_>,
    programs: &[&Program],
    server: Option<&TestServer>,
) -> Result<(), String> {
    for program in programs {
        if run.has_failed() {
            // The row or part that failed says so.
            return Ok(());
        }
        let mut command = plain(&program.path);
        // What cargo would set: tests read files of their package.
        command.current_dir(&program.package).env("CARGO_MANIFEST_DIR", &program.package);
        command.envs(server.and_then(TestServer::variable));
        let heading = heading(stage.root, program);
        if let Err(reason) = stage.finish_as(&heading, &mut command) {
            run.note_failure();
            return Err(format!("{heading}: {reason}"));
        }
    }
    Ok(())
}

/// The main file, from the root of the workspace.
fn heading(root: &Path, program: &Program) -> String {
    let source = program.source.strip_prefix(root).unwrap_or(&program.source);
    format!("Running {}", source.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(package: &str, source: &str, kind: Kind) -> Program {
        let package = Path::new("/w/crates").join(package);
        Program { name: "x".into(), kind, path: "/t/x".into(), source: package.join(source), package }
    }

    #[test]
    fn failures_of_both_rows_are_told() {
        let failed = |reason: &str| Err(reason.to_string());
        assert_eq!(both(Ok(()), Ok(())), Ok(()));
        assert_eq!(both(failed("a"), Ok(())), failed("a"));
        assert_eq!(both(Ok(()), failed("b")), failed("b"));
        assert_eq!(both(failed("a"), failed("b")), failed("a\nand b"));
    }

    #[test]
    fn tests_with_a_server_have_a_row_of_their_own_and_the_order_is_that_of_the_sources() {
        let built = Built {
            programs: vec![
                program("duroxide-postgres", "tests/b.rs", Kind::Tests),
                program("duroxide", "tests/z.rs", Kind::Tests),
                program("duroxide-postgres", "tests/a.rs", Kind::Tests),
                program("duroxide", "examples/e.rs", Kind::Example),
                program("duroxide", "src/lib.rs", Kind::Tests),
            ],
        };
        let headings = |programs: &[&Program]| -> Vec<String> {
            programs.iter().map(|program| heading(Path::new("/w"), program)).collect()
        };
        let Rows { with_server, others } = rows(&built);
        assert_eq!(
            headings(&with_server),
            ["Running crates/duroxide-postgres/tests/a.rs", "Running crates/duroxide-postgres/tests/b.rs"]
        );
        assert_eq!(
            headings(&others),
            ["Running crates/duroxide/src/lib.rs", "Running crates/duroxide/tests/z.rs"]
        );
    }
}
