//! What the crates may depend on.

use super::{File, Finding};

/// Everything the pure crate needs. None of these does I/O, reads a clock or draws a random number.
const CORE_DEPENDENCIES: [&str; 6] =
    ["async-trait", "futures-util", "semver", "serde", "serde_json", "thiserror"];

/// The pure crate depends on [`CORE_DEPENDENCIES`] alone; its tests may use more.
pub(super) fn core_depends_on_little(file: &File) -> Vec<Finding> {
    if file.path != "crates/duroxide-core/Cargo.toml" {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, name) in dependencies(&file.text) {
        if !CORE_DEPENDENCIES.contains(&name) {
            let allowed = CORE_DEPENDENCIES.join(", ");
            let text = format!(
                "duroxide-core may not depend on {name}, only on {allowed}; what needs it belongs into another crate"
            );
            findings.push(Finding::fault(file, line, "dependencies", text));
        }
    }
    findings
}

/// The packages in every table of dependencies but those of tests, with their lines.
pub(super) fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (line, text) in (1..).zip(manifest.lines()) {
        let text = text.trim();
        if let Some(table) = text.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let (parent, last) = table.rsplit_once('.').unwrap_or(("", table));
            inside = is_dependencies(last);
            if is_dependencies(parent.rsplit('.').next().unwrap_or_default()) {
                found.push((line, last));
            }
        } else if inside && !text.is_empty() && !text.starts_with('#') {
            let name = text.split(['.', '=', ' ']).next().unwrap_or_default();
            // A crate that is named otherwise than its package.
            let package = text.split_once("package = \"").and_then(|(_, rest)| rest.split('"').next());
            found.push((line, package.unwrap_or(name.trim_matches('"'))));
        }
    }
    found
}

fn is_dependencies(table: &str) -> bool {
    table == "dependencies" || table == "build-dependencies"
}

/// The one crate with unsafe code: a layer under SQLite is a table of C functions. Only tests use it.
const WITH_UNSAFE_CODE: &str = "crates/duroxide-power/Cargo.toml";

/// Every crate takes the lints of the workspace.
pub(super) fn lints_are_inherited(file: &File) -> Vec<Finding> {
    let is_member = file.path.ends_with("/Cargo.toml")
        && (file.path.starts_with("crates/") || file.path.starts_with("xtask/"));
    if !is_member || file.path == WITH_UNSAFE_CODE || file.text.contains("[lints]\nworkspace = true") {
        return Vec::new();
    }
    let text = "the crate does not take the lints of the workspace; add `[lints]` with `workspace = true`";
    vec![Finding::fault(file, 1, "lints", text)]
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    fn check(manifest: &str, expected: &[(usize, &str)]) {
        let file = File::new("crates/duroxide-core/Cargo.toml", manifest);
        expect(&core_depends_on_little(&file), expected);
    }

    #[test]
    fn the_core_depends_on_the_list_alone() {
        check("[dependencies]\nserde.workspace = true\nsemver = \"1\"\n# tokio = \"1\"\n", &[]);
        check("[dependencies]\nserde = \"1\"\ntokio.workspace = true\n", &[(3, "tokio")]);
        check("[build-dependencies]\ncc = \"1\"\n", &[(2, "cc")]);
        check("[dependencies.rusqlite]\nversion = \"1\"\n", &[(1, "rusqlite")]);
        check("[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n", &[(2, "libc")]);
    }

    #[test]
    fn tests_may_depend_on_more() {
        check("[dev-dependencies]\nproptest = \"1\"\n[features]\nx = []\n", &[]);
    }

    #[test]
    fn the_lints_of_the_workspace_count_everywhere() {
        let check = |text: &str| lints_are_inherited(&File::new("crates/a/Cargo.toml", text)).len();
        assert_eq!(check("[package]\n\n[lints]\nworkspace = true\n"), 0);
        assert_eq!(check("[package]\n"), 1);
    }
}
