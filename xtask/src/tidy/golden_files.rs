//! Every variant that is stored has a golden file.

use super::{File, Finding};

const GOLDEN: &str = "crates/duroxide-core/tests/golden/v1";

/// The stored enums: where they are defined, and where their golden files lie.
const STORED: [(&str, &str, &str); 6] = [
    ("EventKind", "crates/duroxide-core/src/model/event.rs", "events"),
    ("WorkItem", "crates/duroxide-core/src/model/work_item.rs", "work_items"),
    ("ErrorDetails", "crates/duroxide-core/src/model/error.rs", "errors"),
    ("ConfigErrorKind", "crates/duroxide-core/src/model/error.rs", "errors"),
    ("AppErrorKind", "crates/duroxide-core/src/model/error.rs", "errors"),
    ("PoisonMessageType", "crates/duroxide-core/src/model/error.rs", "errors"),
];

/// Looks for the file of every variant of every stored enum.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, source, area) in STORED {
        let Some(file) = files.iter().find(|file| file.path == source) else {
            let here = File::new(source, "");
            let text = format!(
                "{name} is not defined here any more; tell xtask/src/tidy/golden_files.rs where it is"
            );
            findings.push(Finding::fault(&here, 1, "golden files", text));
            continue;
        };
        let variants = variants(&file.code, name);
        if variants.is_empty() {
            let text = format!(
                "{name} is not defined here any more; tell xtask/src/tidy/golden_files.rs where it is"
            );
            findings.push(Finding::fault(file, 1, "golden files", text));
        }
        for (position, variant) in variants {
            let golden = format!("{GOLDEN}/{area}/{variant}.json");
            if !files.iter().any(|file| file.path == golden) {
                let text = format!(
                    "{name}::{variant} is stored but {golden} is missing; add a sample and run the test with UPDATE_GOLDEN=1"
                );
                findings.push(Finding::fault(file, file.line_at(position), "golden files", text));
            }
        }
    }
    findings
}

/// The variants of an enum in masked code, with their positions.
fn variants<'a>(code: &'a str, name: &str) -> Vec<(usize, &'a str)> {
    let Some(start) = code.find(&format!("enum {name} {{")) else { return Vec::new() };
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let mut expects_name = false;
    let mut position = start;
    while position < code.len() {
        let byte = code.as_bytes()[position];
        match byte {
            b'{' | b'(' | b'[' => {
                depth += 1;
                expects_name = depth == 1;
            }
            b'}' | b')' | b']' if depth == 1 => break,
            b'}' | b')' | b']' => {
                depth -= 1;
                // An attribute stands in front of the name, a body behind it.
                expects_name = byte == b']';
            }
            b',' if depth == 1 => expects_name = true,
            _ if expects_name && depth == 1 && byte.is_ascii_uppercase() => {
                let rest = &code[position..];
                let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                found.push((position, &rest[..length]));
                expects_name = false;
                position += length;
                continue;
            }
            _ => {}
        }
        position += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::mask::mask;
    use super::*;

    const SOURCE: &str = "\
/// Doc { , }
#[derive(Debug)]
pub enum Kind {
    /// One, Two
    One { field: Vec<(String, Other)> },
    #[serde(rename = \"X\")]
    Two(Inner),
    Three,
}
enum Kinds { Four }
";

    #[test]
    fn the_variants_of_an_enum_are_found() {
        let code = mask(SOURCE);
        let names: Vec<&str> = variants(&code, "Kind").into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["One", "Two", "Three"]);
        assert_eq!(variants(&code, "Missing"), []);
    }

    #[test]
    fn a_variant_without_a_file_is_found_where_it_stands() {
        let event = "//! Events.\npub enum EventKind {\n    Stored,\n    Forgotten { x: u8 },\n}\n";
        let files = [
            File::new("crates/duroxide-core/src/model/event.rs", event),
            File::new(format!("{GOLDEN}/events/Stored.json"), "{}"),
        ];
        let findings = check(&files);
        assert_eq!((findings[0].line, findings[0].rule), (4, "golden files"));
        assert!(findings[0].text.contains("events/Forgotten.json"), "{}", findings[0].text);
        assert_eq!(findings.iter().filter(|finding| finding.text.contains("any more")).count(), 5);
    }
}
