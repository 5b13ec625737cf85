//! Running a test function.

use std::future::Future;

use super::TestEnv;
use super::chaos::{forget_seeds, tell_last_seed};
use crate::app::Builder;

/// What a test returns.
pub trait TestOutcome {
    /// Whether the test has failed.
    fn is_failure(&self) -> bool;
}

impl TestOutcome for () {
    fn is_failure(&self) -> bool {
        false
    }
}

impl<T, E> TestOutcome for Result<T, E> {
    fn is_failure(&self) -> bool {
        self.is_err()
    }
}

/// Runs a test with all handlers that attributes have entered into the program's list: what `#[duroxide::test]` does.
///
/// # Panics
/// When the test does.
pub fn run_test<F, Fut>(test: F) -> Fut::Output
where
    F: FnOnce(TestEnv) -> Fut,
    Fut: Future,
    Fut::Output: TestOutcome,
{
    run_test_with(TestEnv::builder(), test)
}

/// Runs a test with what the builder registers.
///
/// # Panics
/// When the test does.
pub fn run_test_with<F, Fut>(builder: Builder, test: F) -> Fut::Output
where
    F: FnOnce(TestEnv) -> Fut,
    Fut: Future,
    Fut::Output: TestOutcome,
{
    forget_seeds();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => panic!("no tokio runtime for the test: {error}"),
    };
    let outcome = runtime.block_on(async {
        let env = TestEnv::new(builder);
        test(env).await
    });
    if outcome.is_failure() {
        tell_last_seed();
    }
    outcome
}
