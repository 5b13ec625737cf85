//! Files are short and say in their first line what they are for.

use super::{File, Finding};

/// Past this a file is a question: which operation could have its own?
const WARN_LINES: usize = 500;
/// Past this a file is a fault.
const MAX_LINES: usize = 800;

/// The length of every Rust file, and the first line of those that make up a crate.
pub(super) fn check(file: &File) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let lines = file.text.lines().count();
    if lines > MAX_LINES {
        let text = format!("{lines} lines, at most {MAX_LINES}; give an operation of it its own file");
        findings.push(Finding::fault(file, lines, "length", text));
    } else if lines > WARN_LINES {
        let text = format!("{lines} lines; past {WARN_LINES} ask which operation could have its own file");
        findings.push(Finding::warning(file, lines, "length", text));
    }
    let makes_up_a_crate = file.path.starts_with("crates/") || file.path.starts_with("xtask/");
    if makes_up_a_crate && file.path.contains("/src/") && !file.text.starts_with("//! ") {
        let text = "the file does not say what it is for; begin it with a `//!` line";
        findings.push(Finding::fault(file, 1, "module doc", text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::{Weight, expect};
    use super::*;

    fn lines(count: usize) -> File {
        File::new("crates/a/tests/a.rs", "x\n".repeat(count))
    }

    #[test]
    fn a_file_has_at_most_800_lines() {
        assert_eq!(check(&lines(500)), []);
        assert_eq!(check(&lines(501))[0].weight, Weight::Warning);
        assert_eq!(check(&lines(800))[0].weight, Weight::Warning);
        assert_eq!(check(&lines(801))[0].weight, Weight::Fault);
    }

    #[test]
    fn a_source_file_begins_with_what_it_is_for() {
        let file = |path: &str, text: &str| File::new(path, text);
        expect(&check(&file("crates/a/src/b/c.rs", "//! Does c.\nfn c() {}\n")), &[]);
        expect(&check(&file("crates/a/src/b/c.rs", "fn c() {}\n")), &[(1, "//!")]);
        expect(&check(&file("crates/a/tests/c.rs", "fn c() {}\n")), &[]);
    }
}
