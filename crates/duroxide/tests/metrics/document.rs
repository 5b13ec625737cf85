//! The document on metrics and the list in the code are the same.

use std::collections::BTreeSet;

use duroxide::metric::METRICS;

const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");

/// The rows of the tables, as `name | kind | labels | meaning`.
fn rows() -> BTreeSet<String> {
    let rows =
        DOCUMENT.lines().filter(|line| line.starts_with("| `duroxide_") || line.starts_with("| `duroxide."));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        cells.join(" | ")
    })
    .collect()
}

#[test]
fn every_metric_stands_in_the_document_and_every_row_of_it_is_a_metric() {
    let listed: BTreeSet<String> = METRICS
        .iter()
        .map(|metric| {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            format!("`{}` | {} | {} | {}", metric.name, metric.kind.word(), labels.join(", "), metric.meaning)
        })
        .collect();
    let rows = rows();
    let missing: Vec<&String> = listed.difference(&rows).collect();
    let unknown: Vec<&String> = rows.difference(&listed).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "not in the document:\n{missing:#?}\nno metric:\n{unknown:#?}"
    );
}

#[test]
fn no_name_is_listed_twice() {
    let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), METRICS.len());
}
