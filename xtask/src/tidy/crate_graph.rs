//! Which crate of the workspace may depend on which: the layers of the architecture.

use super::dependencies::dependencies;
use super::{File, Finding};

/// Every crate of the workspace, and the crates of the workspace that it depends on. Dependencies of tests are free.
///
/// Read from the top: what stands lower is built on what stands above it, so that there is no cycle. A store does not
/// see the runtime or another store, and the engine sees neither.
const GRAPH: [(&str, &[&str]); 12] = [
    ("duroxide-core", &[]),
    ("duroxide-provider", &["duroxide-core"]),
    ("duroxide-sqlite", &["duroxide-core", "duroxide-provider"]),
    ("duroxide-postgres", &["duroxide-core", "duroxide-provider"]),
    ("duroxide-macros", &[]),
    (
        "duroxide",
        &["duroxide-core", "duroxide-macros", "duroxide-provider", "duroxide-sqlite", "duroxide-postgres"],
    ),
    ("private-postgres", &[]),
    ("duroxide-cli", &["duroxide"]),
    ("duroxide-sim", &["duroxide-core", "duroxide"]),
    ("duroxide-bench", &["duroxide-core", "duroxide-postgres", "duroxide", "private-postgres"]),
    ("duroxide-power", &[]),
    ("xtask", &["private-postgres"]),
];

/// This file, to be named in findings.
const TABLE: &str = "xtask/src/tidy/crate_graph.rs";
/// The documents that list every crate.
const MAPS: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Compares the table with the manifests and with the documents.
pub(super) fn is_as_drawn(files: &[File]) -> Vec<Finding> {
    check(files, &GRAPH)
}

fn check(files: &[File], graph: &[(&str, &[&str])]) -> Vec<Finding> {
    let members: Vec<Member<'_>> = files.iter().filter_map(member).collect();
    let mut findings = Vec::new();
    for member in &members {
        match graph.iter().find(|(name, _)| *name == member.name) {
            Some((_, allowed)) => findings.extend(edges(member, &members, allowed)),
            None => {
                let text = format!(
                    "{} is not in the graph of crates; say in {TABLE} what it may depend on",
                    member.name
                );
                findings.push(Finding::fault(member.manifest, 1, "crate graph", text));
            }
        }
        findings.extend(missing_in_maps(files, member));
    }
    for (name, _) in graph.iter().filter(|(name, _)| members.iter().all(|member| member.name != *name)) {
        let text = format!("{name} is in the graph of crates, but not in the workspace; take it out");
        findings.push(Finding::fault(&File::new(TABLE, ""), 1, "crate graph", text));
    }
    findings
}

/// A crate of the workspace.
struct Member<'files> {
    manifest: &'files File,
    /// Its directory, from the root.
    directory: &'files str,
    name: &'files str,
}

fn member(file: &File) -> Option<Member<'_>> {
    let directory = file.path.strip_suffix("/Cargo.toml")?;
    let is_member = directory == "xtask"
        || directory.strip_prefix("crates/").is_some_and(|directory| !directory.contains('/'));
    let name = file.text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))?;
    is_member.then_some(Member { manifest: file, directory, name })
}

/// The edges that are there and not allowed, and those that are allowed and not there.
fn edges(member: &Member<'_>, members: &[Member<'_>], allowed: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_ours = |name: &str| members.iter().any(|member| member.name == name);
    let found: Vec<(usize, &str)> =
        dependencies(&member.manifest.text).into_iter().filter(|(_, name)| is_ours(name)).collect();
    for (line, name) in found.iter().filter(|(_, name)| !allowed.contains(name)) {
        let text = format!(
            "{} may not depend on {name}, which is no layer below it; what needs both belongs into a crate above them",
            member.name
        );
        findings.push(Finding::fault(member.manifest, *line, "crate graph", text));
    }
    for name in allowed.iter().filter(|name| found.iter().all(|(_, found)| found != *name)) {
        let text =
            format!("{} does not depend on {name} any more; take the edge out of {TABLE}", member.name);
        findings.push(Finding::fault(member.manifest, 1, "crate graph", text));
    }
    findings
}

/// A document whose table has no line for the crate.
fn missing_in_maps(files: &[File], member: &Member<'_>) -> Vec<Finding> {
    let row = format!("| `{}` |", member.directory);
    let maps = files.iter().filter(|file| MAPS.contains(&file.path.as_str()));
    maps.filter(|map| !map.text.lines().any(|line| line.starts_with(&row)))
        .map(|map| {
            let text = format!("the table of crates has no line for `{}`", member.directory);
            Finding::fault(map, 1, "crate graph", text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    const DRAWN: [(&str, &[&str]); 2] = [("base", &[]), ("top", &["base"])];

    fn manifest(directory: &str, name: &str, dependencies: &str) -> File {
        File::new(format!("{directory}/Cargo.toml"), format!("[package]\nname = \"{name}\"\n{dependencies}"))
    }

    /// The findings in a workspace whose crates `base` and `top` have these tables of dependencies.
    fn of(base: &str, top: &str, expected: &[(usize, &str)]) {
        let files = [manifest("crates/base", "base", base), manifest("crates/top", "top", top)];
        expect(&check(&files, &DRAWN), expected);
    }

    const BASE: &str = "[dependencies]\nbase.workspace = true\n";

    #[test]
    fn a_crate_depends_on_the_layers_below_it() {
        of("", BASE, &[]);
        of("[dependencies]\nserde = \"1\"\n", BASE, &[]);
        of("[dependencies]\ntop = { path = \"../top\" }\n", BASE, &[(4, "base may not depend on top")]);
        of(
            "[dependencies]\nother = { package = \"top\", version = \"1\" }\n",
            BASE,
            &[(4, "base may not depend on top")],
        );
        of("[build-dependencies]\ntop.workspace = true\n", BASE, &[(4, "base may not depend on top")]);
    }

    #[test]
    fn tests_may_depend_on_layers_above() {
        of("[dev-dependencies]\ntop = { path = \"../top\" }\n", BASE, &[]);
    }

    #[test]
    fn the_table_has_exactly_the_crates_and_edges_that_exist() {
        of("", "", &[(1, "top does not depend on base any more")]);
        let crates = [manifest("crates/base", "base", ""), manifest("xtask", "new", "")];
        expect(&check(&crates, &DRAWN[..1]), &[(1, "new is not in the graph")]);
        expect(&check(&crates[..1], &DRAWN), &[(1, "top is in the graph")]);
    }

    #[test]
    fn every_crate_stands_in_the_documents() {
        let with = |row: &str| {
            let files = [manifest("crates/base", "base", ""), File::new("ARCHITECTURE.md", row)];
            check(&files, &DRAWN[..1])
        };
        expect(&with("| `crates/base` | the base |\n"), &[]);
        expect(&with("| `crates/based` | another |\n"), &[(1, "no line for `crates/base`")]);
    }

    #[test]
    fn the_layers_have_no_cycle() {
        for (place, (name, below)) in GRAPH.iter().enumerate() {
            for lower in *below {
                let at = GRAPH.iter().position(|(name, _)| name == lower);
                assert!(at.is_some_and(|at| at < place), "{name} depends on {lower}, which stands below it");
            }
        }
    }
}
