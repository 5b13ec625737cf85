//! A check that cannot fail proves nothing: each kind of broken store is caught, by the check that is meant to.

use duroxide_sim::{Backing, Breakage, Setup, simulate};

/// Some seed of these must fail with one of these words; a store that works must not.
fn check(breakage: Breakage, words: &[&str]) {
    for backing in Backing::ALL {
        let mut caught = Vec::new();
        for seed in 1..=6 {
            let report = simulate(Setup { breakage, backing, ..Setup::of_seed(seed) });
            caught.extend(report.failures);
        }
        let found = caught.iter().any(|failure| words.iter().any(|word| failure.contains(word)));
        assert!(found, "{breakage:?} on {backing:?} should be reported as one of {words:?}, got {caught:#?}");
    }
}

#[test]
fn an_acknowledged_message_that_is_dropped_is_missed() {
    check(Breakage::DropsAMessage, &["was acknowledged and is gone"]);
}

#[test]
fn an_ack_that_did_nothing_is_noticed() {
    check(Breakage::AcksWithoutCommitting, &["0 are stored"]);
}

#[test]
fn a_second_completion_of_one_schedule_is_noticed() {
    check(Breakage::RecordsACompletionTwice, &["after it had been answered"]);
}

#[test]
fn a_result_that_no_activity_gave_is_noticed() {
    check(Breakage::DeliversAForgedResultFirst, &["has another result than it gave"]);
}
