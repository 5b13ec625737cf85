//! Programs that were moved from text to types: this build has them with types, a build before 1.2.0 by text. Nodes of
//! both work on the executions that both can read.
//!
//! | file | its job |
//! |---|---|
//! | `typed` | the programs with types, and those that only this build has |
//! | `text` | the same programs for a build that has no typed API (`--cfg duroxide_without_types`) |
//! | `workload` | what each process starts, cancels and waits for |
//! | `verdict` | what must have come of it |

#[cfg(duroxide_without_types)]
mod text;
#[cfg(not(duroxide_without_types))]
mod typed;
#[cfg(not(duroxide_without_types))]
pub(crate) mod verdict;
pub(crate) mod workload;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use duroxide::{BackoffStrategy, RetryPolicy};

#[cfg(duroxide_without_types)]
pub(crate) use text::{with_activities, with_orchestrations};
#[cfg(not(duroxide_without_types))]
pub(crate) use typed::{with_activities, with_orchestrations};

/// Executions of one instance of `Upgraded`.
const ROUNDS: u32 = 3;
/// How long an activity that never ends may run before the program gives it up.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(20);
const DECLINED: &str = "card declined";
const NETWORK: &str = "network: down";

/// More often than there are processes: each fails the first time.
fn often() -> RetryPolicy {
    RetryPolicy::new(1_000).with_backoff(BackoffStrategy::Fixed { delay: Duration::from_millis(5) })
}

/// Whether this is the first attempt of an activity in this process.
fn is_first_here(activity: &str, instance: &str) -> bool {
    static ATTEMPTS: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());
    let mut attempts = ATTEMPTS.lock().expect("no panic while locked");
    let attempt = attempts.entry(format!("{activity} of {instance}")).or_default();
    *attempt += 1;
    *attempt == 1
}
