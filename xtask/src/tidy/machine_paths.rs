//! No file names a place that exists on one machine only.

use super::{File, Finding};

/// How such places begin. Split, so that this file passes.
const PLACES: [&str; 7] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/t", "mp/"),
    concat!("/wo", "rk/"),
    concat!("/var/fol", "ders/"),
    concat!("C:\\Us", "ers"),
];

/// Looks for absolute paths of somebody's machine in code and documents.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for place in PLACES {
        for (position, _) in file.text.match_indices(place) {
            // Inside a longer path or a URL it is a name like any other.
            let before = file.text[..position].chars().next_back();
            if before.is_some_and(|before| before.is_alphanumeric() || "._-/~}*".contains(before)) {
                continue;
            }
            let text =
                format!("{place} exists on one machine only; use a relative path or a temporary directory");
            findings.push(Finding::fault(file, file.line_at(position), "machine paths", text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    fn of(text: &str, expected: &[(usize, &str)]) {
        expect(&check(&File::new("README.md", text)), expected);
    }

    #[test]
    fn a_place_on_one_machine_is_found() {
        of(&format!("see\n`{}me/x`\n", PLACES[0]), &[(2, "relative")]);
        of(&format!("sqlite:{}x.db\n", PLACES[3]), &[(1, "temporary")]);
    }

    #[test]
    fn a_part_of_a_longer_path_is_fine() {
        of(&format!("https://example.org{}x and a/b{}c\n", PLACES[0], PLACES[4]), &[]);
    }
}
