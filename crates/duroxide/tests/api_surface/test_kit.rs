//! The test kit of programs.

use std::collections::BTreeMap;
use std::error::Error;

use duroxide::testing::{Called, ReplayError, TestOutcome, replay, replay_dir, run_test, run_test_with};
use duroxide::testing::{TestEnv, TestRun};
use duroxide::{Builder, CallError, Duroxide, Run, RunError, StartError};

use crate::notation::{
    ActivityTypedFn, D, In, OrchestrationTypedFn, Out, S, any, fields, methods, traits, variants,
};

pub(crate) fn checked() -> Vec<&'static str> {
    [env(), run(), replays(), tests()].concat()
}

type CalledWithU8 = Called<u8>;

fn env() -> Vec<&'static str> {
    const _: fn(&TestEnv) = |env| {
        let seeds: Vec<TestEnv> = env.chaos_seeds(0..3).collect();
        drop(seeds);
    };
    let mut items = methods!(TestEnv {
        fn builder() -> Builder;
        fn new(Builder) -> TestEnv;
        fn state(&self, Out);
        fn mock(&self, ActivityTypedFn, ActivityTypedFn);
        fn mock(&self, OrchestrationTypedFn, OrchestrationTypedFn);
        fn mock_err(&self, ActivityTypedFn, CallError<String>);
        fn mock_err(&self, OrchestrationTypedFn, CallError<String>);
        fn calls(&self, ActivityTypedFn) -> Vec<Called<In>>;
        fn calls(&self, OrchestrationTypedFn) -> Vec<Called<In>>;
        async fn start(&self, OrchestrationTypedFn, S, In) -> Result<TestRun<Out, String>, StartError>;
        fn handle(&self, OrchestrationTypedFn, S) -> TestRun<Out, String>;
        fn app(&self) -> Duroxide;
        async fn advance(&self, D);
        async fn settle(&self);
        fn elapsed(&self) -> D;
        fn chaos(&self, u64) -> TestEnv;
        fn chaos_seed(&self) -> Option<u64>;
        fn faults(&self) -> BTreeMap<&'static str, u32>;
        fn replay(&self, &str) -> Result<(), ReplayError>;
        fn replay_dir(&self, &str) -> Result<(), ReplayError>;
    });
    items.push("TestEnv::chaos_seeds(&self, impl IntoIterator<Item = u64>) -> impl Iterator<Item = TestEnv>");
    items.extend(
        fields!(CalledWithU8 has { input: u8, instance: String, attempt: u32, idempotency_key: String }),
    );
    items.extend(traits! {
        TestEnv: Clone, Send, Sync;
        Called<u8>: std::ops::Deref<Target = u8>;
    });
    items
}

fn run() -> Vec<&'static str> {
    let mut items = methods!(TestRun<Out, String> {
        async fn result(&self) -> Result<Out, RunError<String>>;
        fn assert_replays(&self);
        fn golden(&self, &str) -> duroxide::Result<()>;
        fn bless(&self, &str) -> duroxide::Result<()>;
    });
    items.extend(traits! {
        TestRun<Out, String>: Clone, std::ops::Deref<Target = Run<Out, String>>;
    });
    items
}

fn replays() -> Vec<&'static str> {
    const _: fn(&str) -> Result<(), ReplayError> = replay;
    const _: fn(&str) -> Result<(), ReplayError> = |directory| replay_dir(directory);
    let mut items = vec![
        "duroxide::testing::replay(&str) -> Result<(), ReplayError>",
        "duroxide::testing::replay_dir(&str) -> Result<(), ReplayError>",
    ];
    items.extend(variants!(open ReplayError {
        NoHistory { instance: String },
        Missing { path: String, cause: String },
        NotWritten { path: String, cause: String },
        Damaged { cause: String },
        OtherOrchestration { recorded: String, expected: String },
        NotRegistered { orchestration: String, version: String },
        Mismatch { after_event: u64, diff: String },
        Files { failures: Vec<String> },
    }));
    items.extend(traits! {
        ReplayError: Error;
    });
    items
}

fn tests() -> Vec<&'static str> {
    const _: fn() -> Result<u8, String> = || run_test(|_env: TestEnv| async { any() });
    const _: fn(Builder) = |builder| run_test_with(builder, |_env: TestEnv| async {});
    let mut items = vec![
        "duroxide::testing::run_test(FnOnce(TestEnv) -> Fut) -> Fut::Output",
        "duroxide::testing::run_test_with(Builder, FnOnce(TestEnv) -> Fut) -> Fut::Output",
    ];
    items.extend(traits! {
        (): TestOutcome;
        Result<u8, String>: TestOutcome;
    });
    items
}
