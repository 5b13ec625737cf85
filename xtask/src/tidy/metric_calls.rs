//! Metrics are recorded through one list.

use super::{File, Finding};

/// The list.
const HOME: &str = "crates/duroxide-provider/src/metric.rs";
/// What records past it.
const CALLS: [&str; 3] = ["metrics::counter!", "metrics::gauge!", "metrics::histogram!"];

/// A metric that is recorded elsewhere would be missing in the document that the list is compared with.
pub(super) fn are_in_one_place(file: &File) -> Vec<Finding> {
    let is_source = file.is_rust() && file.path.starts_with("crates/") && file.path.contains("/src/");
    if !is_source || file.path == HOME {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for call in CALLS {
        for (position, _) in file.code.match_indices(call) {
            let text = format!("`{call}`: add a line to {HOME} and record through its function");
            findings.push(Finding::fault(file, file.line_at(position), "metrics", text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    #[test]
    fn a_metric_is_recorded_through_the_list() {
        let check = |path: &str, text: &str| are_in_one_place(&File::new(path, text));
        let text = "fn f() {\n    metrics::counter!(\"a\").increment(1);\n}\n";
        expect(&check("crates/duroxide/src/runtime/a.rs", text), &[(2, "metrics::counter!")]);
        expect(
            &check("crates/duroxide-postgres/src/a.rs", "metrics::gauge!(\"b\");\n"),
            &[(1, "metrics::gauge!")],
        );
        expect(&check(HOME, text), &[]);
        expect(&check("crates/duroxide/tests/a.rs", text), &[]);
        expect(&check("crates/duroxide/src/a.rs", "// metrics::counter! stands in a comment\n"), &[]);
    }
}
