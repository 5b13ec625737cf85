//! The environment of a test: a store in memory, a node, and a clock that jumps.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use duroxide_core::{AppError, CallError, FunctionNames, OrchestrationParameter, decode_as};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::OnceCell;

use super::chaos::{Chaos, Supervisor, TokioClock, chosen_seed};
use super::mocks::{Mock, MockFailure, id_of};
use super::node::{Node, quiet};
use super::pace::{Goal, Pace, Reached, Time};
use super::watched::Watched;
use super::{Called, Mockable, TestRun};
use crate::app::{Builder, Duroxide, Handlers, StartError};
use crate::clock::{Clock, ManualClock, millis};
use crate::providers::memory::MemoryProvider;
use crate::testing::FaultProvider;

/// When time begins: the 1st of January 2024, 00:00 UTC. The same for every test, so that what depends on it does, too.
const BEGINS_MS: u64 = 1_704_067_200_000;

/// The environment of a test: the handlers of the program on a store in memory, with a clock that jumps. Cheap to clone.
///
/// `#[duroxide::test]` makes one with all handlers that attributes have entered into the program's list; without attributes,
/// [`TestEnv::new`] makes one of a [`Builder`].
///
/// ```
/// use duroxide::prelude::*;
/// use duroxide::testing::run_test_with;
///
/// async fn charge(_ctx: ActivityContext, cents: u64) -> Result<String> {
///     Err(Failure::from(format!("no card reader in a test: {cents}")))
/// }
///
/// async fn order(ctx: OrchestrationContext, cents: u64) -> Result<String> {
///     ctx.sleep(Duration::from_secs(3 * 86_400)).await;
///     Ok(ctx.call(charge, cents).await?)
/// }
///
/// let program = TestEnv::builder().activity("charge", charge).orchestration("order", order);
/// run_test_with(program, |env| async move {
///     env.mock(charge, |_ctx, cents: u64| async move { Ok(format!("paid {cents}")) });
///     let run = env.start(order, "order-1", 500).await.expect("a new id");
///     assert_eq!(run.result().await.expect("the mock succeeds"), "paid 500");
///     assert_eq!(*env.calls(charge)[0], 500);
///     assert_eq!(env.elapsed(), Duration::from_secs(3 * 86_400));
///     run.assert_replays();
/// });
/// ```
#[derive(Clone)]
pub struct TestEnv {
    inner: Arc<Inner>,
}

struct Inner {
    program: Arc<Program>,
    watched: Arc<Watched>,
    store: Arc<MemoryProvider>,
    clock: Arc<dyn Clock>,
    time: Time,
    node: OnceCell<Started>,
    /// Dropped last: nodes end before time is real again.
    chaos: Option<Chaos>,
}

/// What runs the handlers until the environment is dropped.
enum Started {
    Node { _until_dropped: Node },
    Supervisor { _until_dropped: Supervisor },
}

/// What a test registers. States can be added until the first start.
struct Program {
    names: FunctionNames,
    builder: Mutex<Option<Builder>>,
    handlers: OnceLock<Arc<Handlers>>,
}

impl Program {
    fn handlers(&self) -> Arc<Handlers> {
        let build = || {
            let builder = self.builder.lock().unwrap_or_else(PoisonError::into_inner).take();
            match builder.expect("taken only here, once").handlers() {
                Ok(handlers) => Arc::new(handlers),
                Err(error) => panic!("{error}"),
            }
        };
        self.handlers.get_or_init(build).clone()
    }
}

impl TestEnv {
    /// A builder of a program under test. Its store is not used.
    pub fn builder() -> Builder {
        Builder::on_store(Arc::new(MemoryProvider::new()))
    }

    /// An environment with what the builder registers. Its node starts with the first [`Self::start`].
    pub fn new(builder: Builder) -> Self {
        let builder = builder.with_discovered();
        let program = Program {
            names: builder.names().clone(),
            builder: Mutex::new(Some(builder)),
            handlers: OnceLock::new(),
        };
        let clock = Arc::new(ManualClock::new(BEGINS_MS));
        let store = MemoryProvider::with_clock_and_seed(clock.clone(), 0);
        Self::with(Arc::new(program), Watched::default(), store, clock.clone(), Time::Set(clock), None)
    }

    fn with(
        program: Arc<Program>,
        watched: Watched,
        store: MemoryProvider,
        clock: Arc<dyn Clock>,
        time: Time,
        chaos: Option<Chaos>,
    ) -> Self {
        let (watched, store) = (Arc::new(watched), Arc::new(store));
        Self { inner: Arc::new(Inner { program, watched, store, clock, time, node: OnceCell::new(), chaos }) }
    }

    /// A value that activities and their mocks reach with [`ActivityContext::state`](crate::ActivityContext::state).
    ///
    /// # Panics
    /// After the first start.
    pub fn state<T: Send + Sync + 'static>(&self, value: T) {
        let mut builder = self.inner.program.builder.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = builder.take() else {
            panic!("call env.state(..) before the first env.start(..)")
        };
        *builder = Some(before.state(value));
    }

    /// Runs `mock` instead of an activity or child orchestration, also of one that is only declared. A later mock replaces an
    /// earlier one.
    ///
    /// # Panics
    /// If the function has no name.
    pub fn mock<F, C, In, Out, E, Fut, M, MFut>(&self, function: F, mock: M)
    where
        F: Fn(C, In) -> Fut + 'static,
        C: Mockable,
        Fut: Future<Output = Result<Out, E>>,
        M: Fn(C, In) -> MFut + Send + Sync + 'static,
        MFut: Future<Output = Result<Out, E>> + Send + 'static,
        In: DeserializeOwned,
        Out: Serialize,
        E: AppError,
    {
        // The type tells which function it is.
        drop(function);
        self.inner.watched.set_mock(id_of::<C, F>(&self.inner.program.names), C::any(Mock::new(mock)));
    }

    /// Lets every call of an activity or child orchestration fail like this. A call of an activity times out only if its caller
    /// has set `.start_to_close(..)`, and a poisoned activity ends its caller, as outside of tests.
    ///
    /// # Panics
    /// If the function has no name, or cannot fail like this: a child has no deadline.
    pub fn mock_err<F, C, In, Out, E, Fut>(&self, function: F, error: CallError<E>)
    where
        F: Fn(C, In) -> Fut + 'static,
        C: Mockable,
        Fut: Future<Output = Result<Out, E>>,
        E: AppError,
    {
        drop(function);
        let id = id_of::<C, F>(&self.inner.program.names);
        let failure = MockFailure::of(error);
        if let Some(why) = C::cannot_fail_with(&failure) {
            panic!("'{}' cannot fail with {failure:?}: {why}", id.name);
        }
        self.inner.watched.set_mock(id, C::any(Mock::failing(failure)));
    }

    /// The calls of an activity or orchestration so far, mocked or real, in their order. Each attempt of an activity is one.
    ///
    /// # Panics
    /// If the function has no name.
    pub fn calls<F, C, In, Out, E, Fut>(&self, function: F) -> Vec<Called<In>>
    where
        F: Fn(C, In) -> Fut + 'static,
        C: Mockable,
        Fut: Future<Output = Result<Out, E>>,
        In: DeserializeOwned,
    {
        drop(function);
        let recorded = self.inner.watched.calls(&id_of::<C, F>(&self.inner.program.names));
        let called = recorded.into_iter().map(|call| match decode_as("input of a call", &call.input) {
            Ok(input) => Called {
                input,
                instance: call.instance,
                attempt: call.attempt,
                idempotency_key: call.idempotency_key,
            },
            Err(text) => panic!("{text}"),
        });
        called.collect()
    }

    /// Starts an orchestration, as [`Duroxide::start`] does.
    pub async fn start<F, C, In, Out, E, Fut>(
        &self,
        orchestration: F,
        instance: impl Into<String>,
        input: In,
    ) -> Result<TestRun<Out, E>, StartError>
    where
        F: Fn(C, In) -> Fut + 'static,
        C: OrchestrationParameter,
        Fut: Future<Output = Result<Out, E>>,
        In: Serialize,
    {
        self.start_node().await;
        let instance = instance.into();
        self.inner.watched.starts(&instance);
        let run = self.app().start(orchestration, instance, input).await?;
        Ok(TestRun::new(self.clone(), run))
    }

    /// An instance that exists, or will.
    pub fn handle<F, C, In, Out, E, Fut>(
        &self,
        orchestration: F,
        instance: impl Into<String>,
    ) -> TestRun<Out, E>
    where
        F: Fn(C, In) -> Fut + 'static,
        C: OrchestrationParameter,
        Fut: Future<Output = Result<Out, E>>,
    {
        TestRun::new(self.clone(), self.app().handle(orchestration, instance))
    }

    /// The client half of the program, on the store of this environment: to raise events, enqueue messages, and more. No call of
    /// it fails in a chaos run.
    pub fn app(&self) -> Duroxide {
        self.handlers().client(self.inner.store.clone())
    }

    /// Moves time on. On the way it stops at every timer and retry that is due and lets the program do what follows from it.
    ///
    /// # Panics
    /// When the program cannot go on: a function without a handler, a history that does not fit the code.
    pub async fn advance(&self, by: Duration) {
        self.start_node().await;
        self.reach(Goal::At(self.inner.clock.now_ms().saturating_add(millis(by)))).await;
    }

    /// Waits until the program has done all that it can do before time moves on.
    ///
    /// # Panics
    /// When the program cannot go on: a function without a handler, a history that does not fit the code.
    pub async fn settle(&self) {
        self.start_node().await;
        self.reach(Goal::Settled).await;
    }

    /// How much virtual time has passed since the environment began.
    pub fn elapsed(&self) -> Duration {
        Duration::from_millis(self.inner.clock.now_ms().saturating_sub(BEGINS_MS))
    }

    /// The same handlers and mocks on a fresh store, which fails, loses answers and lets locks expire, in processes that die at
    /// any await. What a program returns must be the same. All that happens follows from the seed.
    ///
    /// Needs the runtime of `#[duroxide::test]` or [`run_test`](super::run_test): tokio's time is virtual until the new
    /// environment is dropped, and handlers should wait for nothing outside of the process. If the test fails meanwhile, the
    /// seed is printed with the command that repeats it.
    pub fn chaos(&self, seed: u64) -> Self {
        let handlers_are_fixed = self.handlers();
        drop(handlers_are_fixed);
        let chaos = Chaos::begin(seed);
        let clock = Arc::new(TokioClock::new(BEGINS_MS));
        let store = MemoryProvider::with_clock_and_seed(clock.clone(), seed);
        let watched = self.inner.watched.in_chaos(chaos.deck.clone());
        Self::with(self.inner.program.clone(), watched, store, clock, Time::Tokio, Some(chaos))
    }

    /// [`Self::chaos`] with one seed after the other; with `DUROXIDE_CHAOS_SEED` set, only with that one.
    ///
    /// # Panics
    /// When the variable is not a number.
    pub fn chaos_seeds(&self, seeds: impl IntoIterator<Item = u64>) -> impl Iterator<Item = Self> {
        let seeds: Vec<u64> = match chosen_seed() {
            Some(seed) => vec![seed],
            None => seeds.into_iter().collect(),
        };
        let env = self.clone();
        seeds.into_iter().map(move |seed| env.chaos(seed))
    }

    /// The seed of a chaos run.
    pub fn chaos_seed(&self) -> Option<u64> {
        self.inner.chaos.as_ref().map(|chaos| chaos.seed)
    }

    /// What has gone wrong in a chaos run so far, and how often.
    pub fn faults(&self) -> BTreeMap<&'static str, u32> {
        self.inner.chaos.as_ref().map(|chaos| chaos.deck.happened()).unwrap_or_default()
    }

    pub(super) fn handlers(&self) -> Arc<Handlers> {
        self.inner.program.handlers()
    }

    pub(super) fn watched(&self) -> &Arc<Watched> {
        &self.inner.watched
    }

    pub(super) fn store(&self) -> &MemoryProvider {
        &self.inner.store
    }

    pub(super) async fn reach(&self, goal: Goal<'_>) -> Reached {
        let Inner { watched, store, clock, time, .. } = &*self.inner;
        Pace { store, clock: &**clock, time, watched }.reach(goal).await
    }

    async fn start_node(&self) {
        let Inner { watched, store, chaos, .. } = &*self.inner;
        let handlers = self.handlers();
        let start = || async {
            if let Some(chaos) = chaos {
                let supervisor = Supervisor::start(handlers, watched.clone(), store.clone(), chaos);
                return Started::Supervisor { _until_dropped: supervisor };
            }
            let observed = Arc::new(FaultProvider::new(store.clone()).observed_by(watched.clone()));
            let options = quiet(handlers.options.clone(), 0);
            let node = Node::start(&handlers, watched, observed, options).await;
            Started::Node { _until_dropped: node }
        };
        self.inner.node.get_or_init(start).await;
    }
}

impl std::fmt::Debug for TestEnv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestEnv").field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}
