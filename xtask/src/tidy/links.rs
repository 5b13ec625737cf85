//! Relative links in the documents lead to files that exist.

use super::{File, Finding};

/// Looks up every relative link of every Markdown file.
pub(super) fn resolve(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, target) in links(&file.text) {
            let Some(path) = relative_path(target) else { continue };
            let Some(wanted) = join(&file.path, path) else {
                let text = format!("the link to {target} leaves the repository; link to what is inside");
                findings.push(Finding::fault(file, line, "links", text));
                continue;
            };
            let directory = format!("{wanted}/");
            let exists = wanted.is_empty()
                || files.iter().any(|file| file.path == wanted || file.path.starts_with(&directory));
            if !exists {
                let text = format!("the link to {target} leads nowhere ({wanted}); correct or remove it");
                findings.push(Finding::fault(file, line, "links", text));
            }
        }
    }
    findings
}

/// The targets of `[text](target)` and `[name]: target` outside code, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        // Every second piece between backticks is code.
        for prose in line.split('`').step_by(2) {
            for (position, _) in prose.match_indices("](") {
                let target = prose[position + 2..].split([')', ' ']).next().unwrap_or_default();
                found.push((number, target));
            }
        }
        if line.contains("`](") {
            for (position, _) in line.match_indices("`](") {
                found.push((number, line[position + 3..].split([')', ' ']).next().unwrap_or_default()));
            }
        }
        if line.starts_with('[')
            && let Some((_, target)) = line.split_once("]: ")
        {
            found.push((number, target.trim().split(' ').next().unwrap_or_default()));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The path of a link into the repository; `None` for URLs, anchors and links to items of the code.
fn relative_path(target: &str) -> Option<&str> {
    let path = target.split('#').next().unwrap_or_default();
    let is_elsewhere =
        path.is_empty() || path.contains("://") || path.starts_with("mailto:") || path.contains("::");
    (!is_elsewhere).then_some(path)
}

/// The link's path from the root of the workspace; `None` where it leads out of it.
fn join(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if path.starts_with('/') {
        return None;
    }
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    fn check(text: &str, expected: &[(usize, &str)]) {
        let files = [
            File::new("docs/guide/a.md", text),
            File::new("docs/b.md", ""),
            File::new("src/lib.rs", "//! Doc.\n"),
        ];
        expect(&resolve(&files), expected);
    }

    #[test]
    fn a_relative_link_leads_to_a_file() {
        check("[b](../b.md#part) and [the code](../../src/lib.rs)\n[all](../)\n[root](../..)", &[]);
        check("fine\n[c](../c.md) and [`d`](d.md)\n", &[(2, "../c.md"), (2, "d.md")]);
        check("[ref]: ../c.md\n", &[(1, "../c.md")]);
        check("[out](../../../x.md)\n", &[(1, "leaves the repository")]);
    }

    #[test]
    fn urls_anchors_items_and_code_are_not_looked_up() {
        check("[a](https://example.org/x) [b](#part) [c](mailto:a@example.org) [d](crate::Item)\n", &[]);
        check("`[x](y.md)`\n```\n[x](y.md)\n```\n", &[]);
    }
}
