//! `cargo xtask tidy`: the rules of the workspace that the compiler does not check.
//!
//! Every rule is a pure function of files' texts. A rule here exists because breaking it costs a promise of
//! the project: the core stays pure, stored forms stay readable, and every exception says why.

mod crate_graph;
mod dependencies;
mod error_texts;
mod exceptions;
mod file;
mod file_shape;
mod golden_files;
mod layers;
mod links;
mod machine_paths;
mod mask;
mod metric_calls;
mod purity;
mod test_names;

use std::path::Path;

use crate::say;
use file::File;

/// One place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, from the root of the workspace.
    path: String,
    /// The line, counted from 1.
    line: usize,
    /// The rule's name.
    rule: &'static str,
    /// What is wrong and what to do.
    text: String,
    weight: Weight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// The run fails.
    Fault,
    /// Printed only.
    Warning,
}

impl Finding {
    fn fault(file: &File, line: usize, rule: &'static str, text: impl Into<String>) -> Self {
        Self { path: file.path.clone(), line, rule, text: text.into(), weight: Weight::Fault }
    }

    fn warning(file: &File, line: usize, rule: &'static str, text: impl Into<String>) -> Self {
        Self { weight: Weight::Warning, ..Self::fault(file, line, rule, text) }
    }
}

/// A rule that looks at one file at a time.
type FileRule = fn(&File) -> Vec<Finding>;

const FILE_RULES: [FileRule; 10] = [
    dependencies::core_depends_on_little,
    dependencies::lints_are_inherited,
    purity::core_is_pure,
    purity::one_module_reads_the_clock,
    layers::engine_and_providers_do_not_meet,
    file_shape::check,
    exceptions::check,
    machine_paths::check,
    error_texts::are_not_searched,
    metric_calls::are_in_one_place,
];

/// Checks the workspace and prints the findings; whether there is no fault.
pub(crate) fn run(root: &Path) -> bool {
    let files = match file::read_all(root) {
        Ok(files) => files,
        Err(problem) => {
            say(&format!("tidy cannot read the workspace: {problem}"));
            return false;
        }
    };
    let mut findings = check(&files);
    findings.sort();
    let mut faults = 0;
    for Finding { path, line, rule, text, weight } in &findings {
        let prefix = match weight {
            Weight::Fault => {
                faults += 1;
                ""
            }
            Weight::Warning => "warning: ",
        };
        say(&format!("{path}:{line}: {prefix}{rule}: {text}"));
    }
    say(&format!("tidy: {} files, {faults} faults, {} warnings", files.len(), findings.len() - faults));
    faults == 0
}

fn check(files: &[File]) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        files.iter().flat_map(|file| FILE_RULES.into_iter().flat_map(|rule| rule(file))).collect();
    findings.extend(links::resolve(files));
    findings.extend(crate_graph::is_as_drawn(files));
    findings.extend(golden_files::check(files));
    findings.extend(test_names::exist(files));
    findings
}

/// The one way in which the rules' tests look at findings: `line: part of the text`.
#[cfg(test)]
fn expect(findings: &[Finding], expected: &[(usize, &str)]) {
    let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
    assert_eq!(lines, expected.iter().map(|(line, _)| *line).collect::<Vec<_>>(), "{findings:#?}");
    for (finding, (_, part)) in findings.iter().zip(expected) {
        assert!(finding.text.contains(part), "{finding:#?} does not say '{part}'");
    }
}
