//! Several clients call one store at the same time. Some order of their calls, one after the other on the store in
//! memory, must explain every answer, and no call may come before one that had ended when it began.
//!
//! `DUROXIDE_TEST_SEED` runs one seed, `DUROXIDE_TEST_ROUNDS` sets how many are run.

pub(crate) mod broken;
mod calls;
mod explain;
mod session;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use duroxide::clock::ManualClock;
use duroxide::providers::Provider;
use tokio::sync::Barrier;

use calls::{Call, Random};
use explain::{Explanation, explain};
use session::Session;

pub(crate) use explain::Fetches;

/// Clients that call at the same time.
const CLIENTS: usize = 3;
/// Calls of each.
const CALLS: usize = 6;
/// The time does not pass, so that no lock expires.
const NOW_MS: u64 = 1_700_000_000_000;

/// The store that is looked at.
#[async_trait]
pub(crate) trait Subject: Send + Sync {
    /// Opens it once more, for another client; the first time it is empty.
    async fn open(&self, clock: Arc<ManualClock>) -> Arc<dyn Provider>;
}

/// What may come between a client and the store, to see that it is noticed.
pub(crate) trait Between: Send + Sync {
    /// Whether the call is not made at all, and what its answer is then.
    fn instead(&self, _call: &Call) -> Option<String> {
        None
    }

    /// The answer that the client gets for that of the store.
    fn answer(&self, _call: &Call, answer: String) -> String {
        answer
    }
}

/// Nothing.
pub(crate) struct Nothing;

impl Between for Nothing {}

/// One call, as its client saw it.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) client: usize,
    pub(crate) call: Call,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) answer: String,
}

/// Runs the rounds, up to the first that no order explains.
pub(crate) async fn run<S: Subject>(
    subject: impl Fn() -> S,
    between: impl Fn() -> Arc<dyn Between>,
    setting: Setting,
    rounds: u64,
) -> Rounds {
    let chosen = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = chosen("DUROXIDE_TEST_ROUNDS").unwrap_or(rounds);
    let seeds = chosen("DUROXIDE_TEST_SEED").map_or(1..=rounds, |seed| seed..=seed);
    let mut found = Rounds::default();
    for seed in seeds {
        let made = one_round(&subject(), between(), setting.handles, seed).await;
        for call in &made {
            *found.answers.entry(kind_of(call)).or_default() += 1;
        }
        found.overlapping += overlaps(&made);
        match explain(&made, setting.fetches) {
            Explanation::Order(_) => found.explained += 1,
            Explanation::None => {
                found.unexplained = Some(told(seed, &made));
                return found;
            }
            Explanation::TooMany => panic!("too many orders to look at\n{}", told(seed, &made)),
        }
    }
    found
}

/// How clients reach the store, and what its fetches then promise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) handles: Handles,
    pub(crate) fetches: Fetches,
}

/// How clients reach the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handles {
    /// All through one, as the tasks of a process do.
    Shared,
    /// Each through its own, as processes do.
    Own,
}

/// What came of the rounds.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    pub(crate) explained: u64,
    /// The calls that no order explains.
    pub(crate) unexplained: Option<String>,
    /// How often each kind of call had which kind of answer.
    pub(crate) answers: BTreeMap<String, u64>,
    /// Pairs of calls that were under way at the same time.
    pub(crate) overlapping: u64,
}

impl Rounds {
    /// All are explained, calls really overlapped, and every kind of call did what it asks for at least once.
    pub(crate) fn expect_order(&self) {
        assert!(self.unexplained.is_none(), "{}", self.unexplained.as_deref().unwrap_or_default());
        if std::env::var_os("DUROXIDE_TEST_SEED").is_some() {
            return;
        }
        assert!(self.overlapping > self.explained, "{} overlap in {}", self.overlapping, self.explained);
        let missing: Vec<_> = Call::KINDS.iter().filter(|kind| !self.answers.contains_key(**kind)).collect();
        assert!(missing.is_empty(), "never succeeded: {missing:?}\n{:#?}", self.answers);
    }
}

/// A call by its kind if it did what it asks for, and by its kind and failure otherwise.
fn kind_of(made: &Made) -> String {
    match made.answer.strip_prefix("Err(") {
        None if made.answer == "nothing" => format!("{}: nothing", made.call.kind()),
        None => made.call.kind().to_string(),
        Some(error) => format!("{}: {}", made.call.kind(), error.trim_end_matches(')')),
    }
}

fn overlaps(made: &[Made]) -> u64 {
    let mut pairs = 0;
    for (at, one) in made.iter().enumerate() {
        let others = made[at + 1..].iter().filter(|other| other.client != one.client);
        pairs += others.filter(|other| one.begun < other.ended && other.begun < one.ended).count() as u64;
    }
    pairs
}

fn told(seed: u64, made: &[Made]) -> String {
    let mut made = made.to_vec();
    made.sort_by_key(|call| call.begun);
    let lines = made.iter().map(|one| {
        format!("  {}-{} client {}: {:?} -> {}", one.begun, one.ended, one.client, one.call, one.answer)
    });
    format!("no order explains DUROXIDE_TEST_SEED={seed}\n{}", lines.collect::<Vec<_>>().join("\n"))
}

async fn one_round(
    subject: &dyn Subject,
    between: Arc<dyn Between>,
    handles: Handles,
    seed: u64,
) -> Vec<Made> {
    let clock = Arc::new(ManualClock::new(NOW_MS));
    let mut random = Random::new(seed);
    let stamps = Arc::new(AtomicU64::new(0));
    let together = Arc::new(Barrier::new(CLIENTS));
    let mut clients = Vec::new();
    let first = subject.open(clock.clone()).await;
    for client in 0..CLIENTS {
        let store = match handles {
            Handles::Shared => first.clone(),
            Handles::Own => subject.open(clock.clone()).await,
        };
        let calls = Call::program(&mut random, CALLS);
        let (stamps, together, between) = (stamps.clone(), together.clone(), between.clone());
        clients.push(tokio::spawn(async move {
            let mut session = Session::new(client, store);
            let mut made = Vec::new();
            together.wait().await;
            for call in calls {
                let begun = stamps.fetch_add(1, Ordering::SeqCst);
                let answer = match between.instead(&call) {
                    Some(answer) => answer,
                    None => between.answer(&call, session.make(&call).await),
                };
                let ended = stamps.fetch_add(1, Ordering::SeqCst);
                made.push(Made { client, call, begun, ended, answer });
            }
            made
        }));
    }
    let mut all = Vec::new();
    for client in clients {
        all.extend(client.await.expect("a client does not panic"));
    }
    all
}
