//! Tests of programs in virtual time (`TestEnv`, feature `testing`), and a store that fails as told, for tests of programs, of
//! providers and of the runtime (feature `test-hooks`).
//!
//! [`FaultProvider`] stands between the runtime and any store. What happens to a call is scripted
//! ([`FaultProvider::plan`]), drawn from a seed ([`SeededFaults`]) or decided by a [`FaultSource`] of your own; a
//! [`Line`] is cut for an outage; a [`SteppedClock`] steps the time of a store that takes a clock.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use duroxide::providers::memory::MemoryProvider;
//! use duroxide::runtime::Runtime;
//! use duroxide::runtime::registry::ActivityRegistry;
//! use duroxide::testing::{Fault, FaultProvider, Method};
//! use duroxide::{Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let store = Arc::new(FaultProvider::new(Arc::new(MemoryProvider::new())));
//! // The first commit of a turn fails; the second is carried out, and its answer is lost.
//! store.plan(Method::AckTurn, [Fault::FailBefore, Fault::LoseAnswer]);
//!
//! let greet = |_ctx: OrchestrationContext, name: String| async move { Ok(format!("Hello, {name}")) };
//! let orchestrations = OrchestrationRegistry::builder().register("greet", greet).build();
//! let activities = ActivityRegistry::builder().build();
//! let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
//! let client = Client::new(store.clone());
//! client.start_orchestration("one", "greet", "world").await.expect("the store takes the start");
//! let status = client.wait_for_orchestration("one", Duration::from_secs(30)).await;
//! assert!(matches!(status, Ok(OrchestrationStatus::Completed { output, .. }) if output == "Hello, world"));
//! assert!(store.calls(Method::AckTurn) >= 2);
//! runtime.shutdown(None).await;
//! # }
//! ```
//!
//! | fault | what it is |
//! |---|---|
//! | [`Fault::FailBefore`] | fails before the commit |
//! | [`Fault::LoseAnswer`] | commits and loses the answer |
//! | [`Fault::DelayBefore`], [`Fault::DelayAfter`] | delays, also beyond a lock |
//! | [`Fault::Drop`] | a caller that goes away in the middle of a call |
//! | [`Fault::ExpireLock`] | a lock that expires at once |
//! | [`Fault::SkewTime`], [`SteppedClock`] | time that is wrong or jumps |
//! | [`Fault::Duplicate`], [`Fault::Reorder`] | deliveries twice, or in another order |
//! | [`Fault::RunDry`] | a fetch that finds nothing although there is work |
//! | [`Fault::Corrupt`] | a row that does not decode |
//! | [`Fault::Refuse`], [`Fault::Panic`], [`Fault::Pretend`] | a store that is broken |
//! | [`FaultProvider::refuse_rows_above`] | a store that does not accept what one instance writes |
//! | [`Fault::Freeze`], [`Fault::FreezeAfter`] | a process that dies before or after a call |
//! | [`Line::cut`], [`Line::cut_commits`] | an outage, of all or of commits alone |

mod clock;
mod deliver;
#[cfg(feature = "testing")]
mod env;
mod fault;
mod forward;
mod forward_admin;
mod line;
mod method;
mod observer;
mod provider;
mod refusal;
mod seeded;

pub use clock::SteppedClock;
#[cfg(feature = "testing")]
pub use env::{
    Called, Mockable, ReplayError, TestEnv, TestOutcome, TestRun, replay, replay_dir, run_test, run_test_with,
};
pub use fault::{Fault, FaultSource};
pub use line::Line;
pub use method::Method;
pub use observer::{FrozeWhen, Observer};
pub use provider::{FaultProvider, GivenBack};
pub use seeded::{FaultRates, SeededFaults};
