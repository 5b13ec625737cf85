//! Decisions look at an error's kind, never at its text, which may hold what a user wrote.

use super::{File, Finding};

/// Where an error's text comes from.
const TEXTS: [&str; 3] = ["message", "to_string()", "display_message()"];
/// How a text is searched.
const SEARCHES: [&str; 4] = [".contains(", ".starts_with(", ".ends_with(", ".find("];

/// Looks for a search of an error's text in what is not a test.
pub(super) fn are_not_searched(file: &File) -> Vec<Finding> {
    let is_source = file.path.starts_with("crates/") && file.path.contains("/src/") && file.is_rust();
    // The validations are tests: they insist on the words that the contract promises.
    if !is_source || file.path.contains("/provider_validation/") {
        return Vec::new();
    }
    let code = file.code.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut findings = Vec::new();
    for text in TEXTS {
        for search in SEARCHES {
            for (position, _) in code.match_indices(&format!("{text}{search}")) {
                let text = format!("`{text}{search}..)` searches a text; decide by the error's kind");
                findings.push(Finding::fault(file, file.line_at(position), "error texts", text));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    fn of(path: &str, text: &str, expected: &[(usize, &str)]) {
        expect(&are_not_searched(&File::new(path, text)), expected);
    }

    #[test]
    fn a_decision_by_an_errors_text_is_found() {
        let source = "fn f() {\n    if error.message.contains(\"busy\") {}\n    error.to_string().starts_with(x);\n}\n";
        of("crates/duroxide/src/x.rs", source, &[(2, "kind"), (3, "kind")]);
    }

    #[test]
    fn tests_may_look_at_texts() {
        let source = "#[cfg(test)]\nmod tests {\n    assert!(error.message.contains(x));\n}\n";
        of("crates/duroxide/src/x.rs", source, &[]);
        of("crates/duroxide/tests/x.rs", "error.message.contains(x)\n", &[]);
    }
}
