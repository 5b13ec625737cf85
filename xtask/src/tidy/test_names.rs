//! The tables of tests in the documents name tests that exist.

use std::collections::BTreeSet;

use super::{File, Finding};

/// The documents whose tables name tests in their last column.
const TABLES: [&str; 2] = ["docs/faults.md", "docs/seed-tests.md"];

/// Looks up every test that a table names.
pub(super) fn exist(files: &[File]) -> Vec<Finding> {
    let functions: BTreeSet<&str> =
        files.iter().filter(|file| file.is_rust()).flat_map(|file| functions(&file.code)).collect();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| TABLES.contains(&file.path.as_str())) {
        for (line, name) in named(&file.text) {
            let exists = match name.strip_suffix('*') {
                Some(prefix) => functions.iter().any(|function| function.starts_with(prefix)),
                None => functions.contains(name),
            };
            if !exists {
                let text = format!("no test is called `{name}`; correct the table or write the test");
                findings.push(Finding::fault(file, line, "test names", text));
            }
        }
    }
    findings
}

fn functions(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices("fn ").filter_map(|(position, keyword)| {
        let after = &code[position + keyword.len()..];
        let end = after.find(|c: char| !is_of_name(c)).unwrap_or(after.len());
        (end > 0).then(|| &after[..end])
    })
}

/// The names between backticks in the last cell of each row, with their lines. `*` at the end stands for the rest.
fn named(text: &str) -> Vec<(usize, &str)> {
    let mut names = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(row) = line.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|')) else { continue };
        let last = row.rsplit('|').next().unwrap_or_default();
        let quoted = last.split('`').skip(1).step_by(2);
        let is_name = |name: &&str| name.contains('_') && name.trim_end_matches('*').chars().all(is_of_name);
        names.extend(quoted.filter(is_name).map(|name| (number, name)));
    }
    names
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    fn check(table: &str, expected: &[(usize, &str)]) {
        let tests = "async fn a_rule_holds() {}\n    fn b_rule_1() {}\n// fn of_a_comment()\n";
        let files = [
            File::new("docs/faults.md", table),
            File::new("docs/other.md", "| x | `no_such_test` |"),
            File::new("crates/a/tests/a.rs", tests),
        ];
        expect(&exist(&files), expected);
    }

    #[test]
    fn a_named_test_exists() {
        check("| rule | *faults* `a_rule_holds`<br>`b_rule_*` |\n", &[]);
        check("| rule | test |\n|---|---|\n| 1 | `a_rule_bends` |\n", &[(3, "a_rule_bends")]);
        check("| 1 | `a_rule_holds`, `c_rule_*` |\n", &[(1, "c_rule_*")]);
        check("| 1 | `of_a_comment` |\n", &[(1, "of_a_comment")]);
    }

    #[test]
    fn only_names_in_the_last_cell_are_looked_up() {
        check(
            "| `as_named_there` | `a_rule_holds` |\n`outside_a_table`\n| x | `crates/no_test` and `x` |\n",
            &[],
        );
    }
}
