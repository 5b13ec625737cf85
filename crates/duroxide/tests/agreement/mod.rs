//! The store in memory is the model: whatever is asked of it, another store answers the same.
//!
//! Random sequences of calls go to both, on one clock that the test moves. After every call the answers are
//! compared, tokens and incarnations translated; now and then, and at the end, everything that can be read.
//!
//! `PROPTEST_CASES` sets how many sequences are tried. A failing one is shrunk and printed.

mod calls;
mod capabilities;
mod items;
mod operations;
mod pair;
mod redrive;
mod translation;
mod views;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use duroxide::clock::ManualClock;
use duroxide::providers::Provider;
use duroxide_core::ItemKind;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use operations::sequence;
use pair::Pair;

/// The store that is compared with the model.
#[async_trait]
pub(crate) trait Subject {
    /// Opens it; when called again, what the first opening left behind.
    async fn open(&mut self, clock: &Arc<ManualClock>) -> Arc<dyn Provider>;

    /// Makes rows undecodable; how many.
    async fn damage(&self, damage: Damage<'_>) -> usize;

    /// The highest attempt count in an instance's inbox.
    async fn max_attempt_count(&self, instance: &str) -> u32;

    /// How many messages it dropped since it was opened last.
    fn dropped_messages(&self) -> u64;
}

/// What is made undecodable.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Damage<'a> {
    /// The last event of the instance's current execution.
    LastEvent(&'a str),
    /// The messages of a kind in the instance's inbox.
    Messages(&'a str, ItemKind),
    /// The instance's work items.
    Work(&'a str),
}

/// What must have happened at least once in a run, so that agreement means something.
const MUST_HAPPEN: &[&str] = &[
    "start",
    "start of a child",
    "send event",
    "send cancel",
    "send completion",
    "send timer",
    "told: started",
    "told: exists, same input",
    "told: exists, other input",
    "told: delivered",
    "told: kept",
    "told: not found",
    "told: ended",
    "fetch turns",
    "fetch several turns",
    "fetch a suspect",
    "fetch a turn with a cause",
    "fetch a held history",
    "fetch with put-back messages",
    "fetch an undecodable turn",
    "fetch turn",
    "ack turn",
    "ack completed",
    "ack failed",
    "ack poisoned",
    "ack continued as new",
    "ack refused",
    "ack turn: LockLost",
    "abandon turn",
    "abandon turn: LockLost",
    "renew turn",
    "renew turn: LockLost",
    "queue work",
    "fetch work",
    "fetch suspected work",
    "fetch work of a session",
    "give a claim up",
    "ack work",
    "ack work: LockLost",
    "ack work: Invalid",
    "abandon work",
    "renew work",
    "renew work: LockLost",
    "record progress",
    "record progress: LockLost",
    "fetch work with progress",
    "forgive an attempt",
    "forgive an attempt: LockLost",
    "fetch work of a lock that expired",
    "fetch work with forgiven attempts",
    "lost work",
    "renew sessions",
    "cleanup sessions",
    "append",
    "append: NotFound",
    "delete instance",
    "delete instance: Invalid",
    "delete instance: NotFound",
    "delete several",
    "delete several: Invalid",
    "delete bulk",
    "prune",
    "prune bulk",
    "redrive",
    "redrive with a history",
    "redrive anew",
    "redrive with kept messages",
    "redrive with messages kept since",
    "send to a failed instance",
    "redrive: Invalid",
    "redrive: NotFound",
    "fetch work with a deadline",
    "corrupt history",
    "corrupt messages",
    "corrupt work",
    "reopen",
];

/// The same for a store that routes by handler, keeps nodes and sweeps.
const MUST_HAPPEN_BY_CAPABILITY: &[&str] = &[
    "fetch turns by handler",
    "fetch work by handler",
    "heartbeat",
    "heartbeat: Invalid",
    "leave",
    "sweep turns",
    "sweep work",
];

/// How many times as many sequences are tried, at most, for everything to have happened.
const MOST_ROUNDS: u32 = 10;

/// Compares a store with the model on random sequences of calls, as many as the environment says, and on more of them
/// while something has never happened: rare calls need luck.
pub(crate) fn compare(default_cases: u32, subject: impl Fn() -> Box<dyn Subject>) {
    let cases =
        std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default_cases);
    let mut happened = BTreeMap::new();
    for _ in 0..MOST_ROUNDS {
        for (what, times) in compare_some(cases, &subject) {
            *happened.entry(what).or_default() += times;
        }
        if never_happened(&happened).is_empty() {
            return;
        }
    }
    panic!("never happened: {:?}\nhappened: {happened:#?}", never_happened(&happened));
}

/// Tries some sequences; what happened, and how often.
fn compare_some(cases: u32, subject: &impl Fn() -> Box<dyn Subject>) -> BTreeMap<String, u64> {
    let config = Config { cases, max_shrink_iters: 2_000, failure_persistence: None, ..Config::default() };
    let happened = RefCell::new(BTreeMap::<String, u64>::new());
    let outcome = TestRunner::new(config).run(&sequence(), |operations| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let counts = runtime.block_on(async {
            let mut pair = Pair::new(subject()).await;
            for operation in &operations {
                pair.carry_out(operation).await.map_err(TestCaseError::fail)?;
            }
            pair.compare_views().await.map_err(TestCaseError::fail)?;
            Ok::<_, TestCaseError>(pair.into_counts())
        })?;
        for (what, times) in counts {
            *happened.borrow_mut().entry(what).or_default() += times;
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    happened.into_inner()
}

fn never_happened(happened: &BTreeMap<String, u64>) -> Vec<&'static str> {
    let by_capability =
        if happened.contains_key("has capabilities") { MUST_HAPPEN_BY_CAPABILITY } else { &[] };
    let must_happen = MUST_HAPPEN.iter().chain(by_capability);
    must_happen.filter(|what| !happened.contains_key(**what)).copied().collect()
}
