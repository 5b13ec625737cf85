//! Retry policies: delays for every attempt, and no input that overflows.

use std::time::Duration;

use duroxide_core::{BackoffStrategy, RetryPolicy};
use proptest::prelude::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn check(backoff: BackoffStrategy, delays_ms: [u64; 4]) {
    let policy = RetryPolicy::new(9).with_backoff(backoff);
    let delays: Vec<Duration> = (1..=4).map(|attempt| policy.delay_for_attempt(attempt)).collect();
    assert_eq!(delays, delays_ms.map(ms), "{policy:?}");
    assert_eq!(policy.delay_for_attempt(0), Duration::ZERO, "attempts count from 1");
}

#[test]
fn each_strategy_has_its_delays() {
    check(BackoffStrategy::None, [0, 0, 0, 0]);
    check(BackoffStrategy::Fixed { delay: ms(70) }, [70, 70, 70, 70]);
    check(BackoffStrategy::Linear { base: ms(100), max: ms(250) }, [100, 200, 250, 250]);
    check(BackoffStrategy::default(), [100, 200, 400, 800]);
    check(BackoffStrategy::Exponential { base: ms(10), multiplier: 3.0, max: ms(100) }, [10, 30, 90, 100]);
}

#[test]
fn the_defaults_are_three_attempts_up_to_half_a_minute_apart_and_no_timeout() {
    let policy = RetryPolicy::default();
    assert_eq!((policy.max_attempts, policy.timeout), (3, None));
    let backoff = BackoffStrategy::Exponential { base: ms(100), multiplier: 2.0, max: ms(30_000) };
    assert_eq!(policy.backoff, backoff);
    assert_eq!(RetryPolicy::new(3), policy);
    assert_eq!(policy.delay_for_attempt(u32::MAX), ms(30_000));
    assert_eq!(RetryPolicy::new(1).with_timeout(ms(5)), RetryPolicy::new(1).with_total_timeout(ms(5)));
}

#[test]
#[should_panic(expected = "max_attempts must be at least 1")]
fn a_policy_without_an_attempt_is_refused() {
    assert_eq!(RetryPolicy::new(0).max_attempts, 0);
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(Duration::ZERO), Just(Duration::MAX), any::<u64>().prop_map(ms)]
}

proptest! {
    #[test]
    fn no_attempt_number_and_no_multiplier_overflows(
        attempt in prop_oneof![any::<u32>(), 0..5u32],
        base in duration(),
        max in duration(),
        multiplier in prop_oneof![any::<f64>(), Just(f64::NAN), Just(f64::INFINITY), Just(-2.0)],
    ) {
        let linear = BackoffStrategy::Linear { base, max };
        prop_assert!(linear.delay_for_attempt(attempt) <= max);
        let exponential = BackoffStrategy::Exponential { base, multiplier, max };
        prop_assert!(exponential.delay_for_attempt(attempt) <= max);
    }

    #[test]
    fn a_policy_comes_back_from_its_stored_form(
        max_attempts in 1..u32::MAX,
        base in duration(),
        multiplier in 0.0..100.0f64,
        timeout in proptest::option::of(duration()),
    ) {
        let backoff = BackoffStrategy::Exponential { base, multiplier: multiplier.round(), max: base };
        let policy = RetryPolicy { max_attempts, backoff, timeout };
        let text = serde_json::to_string(&policy).expect("a policy has a JSON form");
        prop_assert_eq!(serde_json::from_str::<RetryPolicy>(&text).expect("it reads back"), policy);
    }
}
