//! The core is pure, and elsewhere one module reads the clock.

use super::{File, Finding};

const CORE: &str = "crates/duroxide-core/src/";

/// What must not be named in the core, and what to do instead.
const IMPURE: [(&str, &str); 15] = [
    ("SystemTime::now", "take the time as an argument"),
    ("Instant::now", "take the time as an argument"),
    ("HashMap", "its order is random: use BTreeMap"),
    ("HashSet", "its order is random: use BTreeSet"),
    ("RandomState", "take entropy as an argument"),
    ("rand", "take entropy as an argument"),
    ("uuid", "take entropy as an argument"),
    ("tokio", "return what shall happen as a value"),
    ("rusqlite", "the core stores nothing"),
    ("std::fs", "the core does no I/O"),
    ("std::net", "the core does no I/O"),
    ("std::thread", "the core spawns nothing"),
    ("std::process", "the core spawns nothing"),
    ("std::env", "take settings as arguments"),
    ("std::io", "the core does no I/O"),
];

/// The modules of `std` that an import in braces may not name.
const IMPURE_STD: [&str; 6] = ["fs", "net", "thread", "process", "env", "io"];

/// How many lines above a name the exception for it may stand.
const EXCEPTION_DISTANCE_LINES: usize = 10;

/// The core has no clock, no randomness, no I/O and no order that changes from run to run.
pub(super) fn core_is_pure(file: &File) -> Vec<Finding> {
    if !file.path.starts_with(CORE) || !file.is_rust() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (name, instead) in IMPURE {
        for position in file.words(name) {
            if !is_exempt(file, name, position) {
                let text = format!("{name} in the pure core; {instead}");
                findings.push(Finding::fault(file, file.line_at(position), "purity", text));
            }
        }
    }
    for position in file.words("use std") {
        let import = file.code[position..].split(';').next().unwrap_or_default();
        let Some((_, inside)) = import.split_once("std::{") else { continue };
        for module in top_level_names(inside).filter(|module| IMPURE_STD.contains(module)) {
            let text = format!("std::{module} in the pure core; it does no I/O and spawns nothing");
            findings.push(Finding::fault(file, file.line_at(position), "purity", text));
        }
    }
    findings.sort();
    findings.dedup();
    findings
}

/// The first segments of the paths in the braces of an import.
fn top_level_names(inside: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let at_top = inside.split_inclusive([',', '{', '}']).filter(move |part| {
        let at_top = depth == 0;
        if part.ends_with('{') {
            depth += 1;
        } else if part.ends_with('}') {
            depth -= 1;
        }
        at_top
    });
    at_top.map(|part| part.trim().split([':', ',', '{', '}', ' ']).next().unwrap_or_default())
}

/// A public function of events stamps the time for users, and the API gives out hash maps. Both need an
/// exception of clippy with a reason on the spot.
fn is_exempt(file: &File, name: &str, position: usize) -> bool {
    let before = &file.code[..position];
    match name {
        "SystemTime::now" => {
            let function = before.rsplit("fn ").next().unwrap_or_default();
            file.path.ends_with("model/event.rs") && function.starts_with("with_event_id")
        }
        "HashMap" | "HashSet" => {
            let mut nearby = before.lines().rev().take(EXCEPTION_DISTANCE_LINES);
            nearby.any(|line| line.contains("disallowed_types"))
        }
        _ => false,
    }
}

/// The crates that take the time from a `Clock`. The core has rules of its own.
const WITH_A_CLOCK: [&str; 4] = [
    "crates/duroxide-provider/src/",
    "crates/duroxide-sqlite/src/",
    "crates/duroxide-postgres/src/",
    "crates/duroxide/src/",
];
/// The module that reads the system's clock.
const CLOCK: &str = "crates/duroxide-provider/src/clock.rs";

/// In the library only `clock.rs` reads the system's clock; tokio's follows the virtual time of tests.
pub(super) fn one_module_reads_the_clock(file: &File) -> Vec<Finding> {
    let in_library = WITH_A_CLOCK.iter().any(|source| file.path.starts_with(source));
    if !in_library || file.path == CLOCK || !file.is_rust() {
        return Vec::new();
    }
    let imports_tokios = file.code.split(';').any(|statement| {
        statement.contains("use tokio::") && statement.contains("time") && statement.contains("Instant")
    });
    let mut findings = Vec::new();
    for name in ["SystemTime::now", "Instant::now"] {
        for position in file.words(name) {
            let is_tokios = file.code[..position].ends_with("tokio::time::")
                || (imports_tokios && !file.code[..position].ends_with("::"));
            if name == "Instant::now" && is_tokios {
                continue;
            }
            let text = format!("{name} outside clock.rs; ask a Clock, or tokio::time::Instant for a timeout");
            findings.push(Finding::fault(file, file.line_at(position), "clock", text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    fn core(path: &str, text: &str, expected: &[(usize, &str)]) {
        expect(&core_is_pure(&File::new(format!("{CORE}{path}"), text)), expected);
    }

    #[test]
    fn the_core_names_nothing_impure() {
        core("a.rs", "let x = BTreeMap::new();\n// HashMap\nlet y = \"std::fs\";\n", &[]);
        core("a.rs", "use std::collections::HashMap;\n", &[(1, "BTreeMap")]);
        core(
            "a.rs",
            "fn f() {\n    std::fs::read(p);\n    rand::random();\n}\n",
            &[(2, "std::fs"), (3, "rand")],
        );
        core("a.rs", "let t = Instant::now();\n", &[(1, "argument")]);
        core("a.rs", "let operand = branded(x);\n", &[]);
    }

    #[test]
    fn an_import_in_braces_is_seen_through() {
        core("a.rs", "use std::{fmt, fs::File};\n", &[(1, "std::fs")]);
        core("a.rs", "use std::{fmt::{self, net}, sync::Arc};\n", &[]);
        core(
            "a.rs",
            "use std::{\n    collections::{BTreeMap, BTreeSet},\n    thread,\n};\n",
            &[(1, "std::thread")],
        );
    }

    #[test]
    fn only_the_stamp_for_users_reads_the_time() {
        let text = "fn with_event_id() {\n    SystemTime::now()\n}\nfn other() {\n    SystemTime::now()\n}\n";
        core("model/event.rs", text, &[(5, "argument")]);
        core("engine/event.rs", text, &[(2, "argument"), (5, "argument")]);
    }

    #[test]
    fn a_hash_map_of_the_api_needs_its_exception() {
        let text = "#[expect(clippy::disallowed_types, reason = \"x\")]\nfn f() -> HashMap<A, B> {}\n";
        core("a.rs", text, &[]);
        core(
            "a.rs",
            "#[expect(\n    clippy::disallowed_types,\n    reason = \"x\"\n)]\nfn f() -> HashMap<A, B> {}\n",
            &[],
        );
        core(
            "a.rs",
            "#[expect(clippy::other, reason = \"x\")]\nfn f() -> HashMap<A, B> {}\n",
            &[(2, "BTreeMap")],
        );
    }

    fn clock(path: &str, text: &str, expected: &[(usize, &str)]) {
        expect(&one_module_reads_the_clock(&File::new(path, text)), expected);
    }

    #[test]
    fn only_the_clock_reads_the_clock() {
        let text = "fn f() {\n    SystemTime::now();\n    std::time::Instant::now();\n}\n";
        clock(CLOCK, text, &[]);
        clock("crates/duroxide-sqlite/src/clock.rs", text, &[(2, "clock.rs"), (3, "clock.rs")]);
        clock("crates/duroxide/tests/a.rs", text, &[]);
        clock("crates/duroxide/src/runtime/a.rs", text, &[(2, "clock.rs"), (3, "clock.rs")]);
    }

    #[test]
    fn the_clock_of_tokio_is_allowed() {
        clock("crates/duroxide/src/a.rs", "let t = tokio::time::Instant::now();\n", &[]);
        clock(
            "crates/duroxide/src/a.rs",
            "use tokio::time::{Instant, sleep};\nlet t = Instant::now();\n",
            &[],
        );
        clock(
            "crates/duroxide/src/a.rs",
            "use std::time::Instant;\nlet t = Instant::now();\n",
            &[(2, "Clock")],
        );
        let both = "use tokio::time::Instant;\nlet t = std::time::Instant::now();\n";
        clock("crates/duroxide/src/a.rs", both, &[(2, "Clock")]);
    }
}
