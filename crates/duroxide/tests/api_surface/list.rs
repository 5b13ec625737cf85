//! Compares what the sections check with the list.

use std::collections::BTreeSet;

/// Checks the items of a section, and gives them.
type Check = fn() -> Vec<&'static str>;

const SECTIONS: [(&str, Check); 16] = [
    ("Modules", crate::modules::checked),
    ("OrchestrationContext", crate::orchestration_context::checked),
    ("ActivityContext", crate::activity_context::checked),
    ("Registries", crate::registries::checked),
    ("Runtime", crate::runtime::checked),
    ("Client", crate::client::checked),
    ("Types", crate::types::checked),
    ("For provider authors", crate::provider::checked),
    ("Stored forms", crate::stored::checked),
    ("Rules that programs rely on", crate::rules::checked),
    ("Typed programs", crate::typed::checked),
    ("The facade", crate::facade::checked),
    ("Attributes", crate::attributes::checked),
    ("The test kit", crate::test_kit::checked),
    ("Additions to the text style", crate::additions::checked),
    ("Names", crate::names::checked),
];

#[test]
fn every_item_of_the_list_is_checked_and_every_check_is_in_the_list() {
    let mut differences = Vec::new();
    let listed: Vec<&str> = lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let known: Vec<&str> = SECTIONS.iter().map(|(section, _)| *section).collect();
    assert_eq!(listed, known, "the sections of the list");
    for (section, checked) in SECTIONS {
        let listed: BTreeSet<String> = items(section).map(squeezed).collect();
        let checked: BTreeSet<String> = checked().into_iter().map(squeezed).collect();
        let missing = listed.difference(&checked).map(|item| format!("{section}: not checked: {item}"));
        differences.extend(missing);
        let unlisted = checked.difference(&listed).map(|item| format!("{section}: not listed: {item}"));
        differences.extend(unlisted);
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn no_item_is_listed_twice_in_a_section() {
    for (section, _) in SECTIONS {
        let mut seen = BTreeSet::new();
        for item in items(section) {
            assert!(seen.insert(squeezed(item)), "{section}: {item}");
        }
    }
}

fn lines() -> impl Iterator<Item = &'static str> {
    include_str!("list.txt").lines().map(str::trim).filter(|line| !line.is_empty())
}

/// The items of a section. Lines that begin with one `#` are notes.
pub(crate) fn items(section: &str) -> impl Iterator<Item = &'static str> {
    let is_heading = |line: &&str| line.starts_with("## ");
    let heading = format!("## {section}");
    let body =
        lines().skip_while(move |line| *line != heading).skip(1).take_while(move |line| !is_heading(line));
    body.filter(|line| !line.starts_with("# "))
}

/// How the compiler prints tokens says nothing; without spaces, and commas before an end, the texts can be compared.
fn squeezed(item: &str) -> String {
    let dense: String = item.chars().filter(|c| !c.is_whitespace()).collect();
    dense.replace(",}", "}").replace(",)", ")")
}
