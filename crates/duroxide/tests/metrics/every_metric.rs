//! Programs that provoke every metric: what they record is what the list says, no more and no less.

use std::collections::BTreeSet;

use duroxide::metric::{METRICS, describe};

use crate::provoke;
use crate::seen::{Seen, line};

/// Recorded by the store in PostgreSQL alone, by the function that counts for its statistics, which its tests check.
const OF_POSTGRES: &str = "duroxide_store_conflicts_total";

#[test]
fn what_is_recorded_is_what_the_list_says() {
    let seen = Seen::default();
    // SQLite records on its own thread, so the recorder is that of the process.
    metrics::set_global_recorder(seen.clone()).expect("no other test installs one");
    describe();
    provoke::all();
    let recorded = seen.recorded();
    let listed: BTreeSet<String> = METRICS.iter().map(line).collect();
    let unlisted: Vec<&String> = recorded.difference(&listed).collect();
    let silent: Vec<&String> =
        listed.difference(&recorded).filter(|line| !line.contains(OF_POSTGRES)).collect();
    assert!(
        unlisted.is_empty() && silent.is_empty(),
        "recorded and not listed: {unlisted:#?}\nlisted and never recorded: {silent:#?}"
    );
    let described = seen.described();
    let undescribed: Vec<_> = METRICS.iter().filter(|metric| !described.contains(metric.name)).collect();
    assert!(undescribed.is_empty(), "{undescribed:#?}");
}
