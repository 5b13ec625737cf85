//! Every exception from a lint stands on its line with a reason, and nothing is left half done.

use super::{File, Finding};

/// Words of unfinished work, as they stand in code or comments. Split, so that this file passes.
const UNFINISHED: [&str; 3] = [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("X", "XX")];

/// Looks for exceptions without a reason and for what is left to do.
pub(super) fn check(file: &File) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    let mut findings = exceptions(file);
    for macro_call in ["todo!", "dbg!", "unimplemented!"] {
        for (position, _) in file.code.match_indices(macro_call) {
            let text = format!("{macro_call} is left; finish the work or take it out");
            findings.push(Finding::fault(file, file.line_at(position), "unfinished", text));
        }
    }
    for word in UNFINISHED {
        for (position, _) in file.text.match_indices(word) {
            let text = format!("{word} is left; finish the work or write down why it is as it is");
            findings.push(Finding::fault(file, file.line_at(position), "unfinished", text));
        }
    }
    findings
}

fn exceptions(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (position, _) in file.code.match_indices("#!") {
        let attribute = attribute_at(&file.code, position);
        if is_exception(&file.code[position..position + attribute]) {
            let text = "a lint exception for a whole file; put it on the line that needs it, with a reason";
            findings.push(Finding::fault(file, file.line_at(position), "exceptions", text));
        }
    }
    for (position, _) in file.code.match_indices("#[") {
        let attribute = &file.code[position..position + attribute_at(&file.code, position)];
        if is_exception(attribute) && !attribute.contains("reason =") {
            let text = "a lint exception without a reason; add `reason = \"..\"`";
            findings.push(Finding::fault(file, file.line_at(position), "exceptions", text));
        }
    }
    findings
}

/// The length of the attribute that begins at `position`.
fn attribute_at(code: &str, position: usize) -> usize {
    let mut depth = 0;
    for (offset, byte) in code.as_bytes()[position..].iter().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => return offset + 1,
            b']' => depth -= 1,
            _ => {}
        }
    }
    code.len() - position
}

fn is_exception(attribute: &str) -> bool {
    let inside = attribute.trim_start_matches(['#', '!', '[']);
    let conditional = inside.starts_with("cfg_attr(");
    ["allow(", "expect("].iter().any(|exception| {
        inside.starts_with(exception) || (conditional && inside.contains(&format!(" {exception}")))
    })
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    fn of(text: &str, expected: &[(usize, &str)]) {
        expect(&check(&File::new("crates/a/src/a.rs", text)), expected);
    }

    #[test]
    fn an_exception_has_a_reason() {
        of("#[expect(clippy::x, reason = \"because\")]\nfn f() {}\n", &[]);
        of("#[expect(\n    clippy::x,\n    reason = \"because\"\n)]\nfn f() {}\n", &[]);
        of("\n#[allow(dead_code)]\nfn f() {}\n", &[(2, "reason")]);
        of("#[cfg_attr(test, allow(dead_code))]\nfn f() {}\n", &[(1, "reason")]);
        of("x.expect(\"y\"); // #[allow(dead_code)]\n", &[]);
    }

    #[test]
    fn no_exception_is_for_a_whole_file() {
        of("//! Doc.\n#![allow(dead_code, reason = \"because\")]\n", &[(2, "whole file")]);
        of("#![expect(dead_code)]\n", &[(1, "whole file")]);
        of("#![doc = \"x\"]\n", &[]);
    }

    #[test]
    fn nothing_is_left_half_done() {
        of("fn f() {\n    todo!()\n}\n", &[(2, "todo!")]);
        of("let x = dbg!(y);\n", &[(1, "dbg!")]);
        of(&format!("// {}: later\n", UNFINISHED[0]), &[(1, "finish")]);
        of("let s = \"todo!\";\n", &[]);
    }
}
