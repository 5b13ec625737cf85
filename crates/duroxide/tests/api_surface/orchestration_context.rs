//! What an orchestration can do, and the futures that it gets.

use std::collections::HashMap;
use std::future::Ready;
use std::time::SystemTime;

use duroxide::{Either2, Either3, OrchestrationContext, RetryPolicy, SystemStats};

use crate::notation::{D, Fut, In, Out, RS, S, methods, traits, variants};

pub(crate) fn checked() -> Vec<&'static str> {
    [activities(), events_and_children(), ends(), combinators(), state(), traces(), futures(), eithers()]
        .concat()
}

fn activities() -> Vec<&'static str> {
    methods!(OrchestrationContext {
        fn schedule_activity(&self, S, S) -> Fut<RS>;
        fn schedule_activity_typed<In, Out>(&self, S, &In) -> Fut<Result<Out, String>>;
        fn schedule_activity_on_session(&self, S, S, S) -> Fut<RS>;
        fn schedule_activity_on_session_typed<In, Out>(&self, S, &In, S) -> Fut<Result<Out, String>>;
        async fn schedule_activity_with_retry(&self, S, S, RetryPolicy) -> RS;
        async fn schedule_activity_with_retry_typed<In, Out>(&self, S, &In, RetryPolicy) -> Result<Out, String>;
        async fn schedule_activity_with_retry_on_session(&self, S, S, RetryPolicy, S) -> RS;
        async fn schedule_activity_with_retry_on_session_typed<In, Out>(&self, S, &In, RetryPolicy, S)
            -> Result<Out, String>;
        fn schedule_timer(&self, D) -> Fut<()>;
    })
}

#[expect(deprecated, reason = "the older spellings are kept")]
fn events_and_children() -> Vec<&'static str> {
    methods!(OrchestrationContext {
        fn schedule_wait(&self, S) -> Fut<String>;
        fn schedule_wait_typed<Out>(&self, S) -> Fut<Out>;
        fn dequeue_event(&self, S) -> Fut<String>;
        fn dequeue_event_typed<Out>(&self, S) -> Fut<Out>;
        fn schedule_wait_persistent(&self, S) -> Fut<String>;
        fn schedule_wait_persistent_typed<Out>(&self, S) -> Fut<Out>;
        fn schedule_sub_orchestration(&self, S, S) -> Fut<RS>;
        fn schedule_sub_orchestration_with_id(&self, S, S, S) -> Fut<RS>;
        fn schedule_sub_orchestration_versioned(&self, S, Option<String>, S) -> Fut<RS>;
        fn schedule_sub_orchestration_versioned_with_id(&self, S, Option<String>, S, S) -> Fut<RS>;
        fn schedule_sub_orchestration_typed<In, Out>(&self, S, &In) -> Fut<Result<Out, String>>;
        fn schedule_sub_orchestration_with_id_typed<In, Out>(&self, S, S, &In) -> Fut<Result<Out, String>>;
        fn schedule_orchestration(&self, S, S, S);
        fn schedule_orchestration_typed<In>(&self, S, S, &In);
        fn schedule_orchestration_versioned(&self, S, Option<String>, S, S);
        fn schedule_orchestration_versioned_typed<In>(&self, S, Option<String>, S, &In);
    })
}

fn ends() -> Vec<&'static str> {
    // Also without an await: nothing asks the caller to use what it returns.
    const _: fn(&OrchestrationContext) = |ctx| {
        ctx.continue_as_new("next");
        ctx.continue_as_new_typed(&In);
        ctx.continue_as_new_versioned("2.0.0", "next");
    };
    methods!(OrchestrationContext {
        async fn continue_as_new(&self, S) -> RS;
        async fn continue_as_new_typed<In>(&self, &In) -> RS;
        async fn continue_as_new_versioned(&self, S, S) -> RS;
    })
}

/// Any future, not only durable ones.
fn combinators() -> Vec<&'static str> {
    methods!(OrchestrationContext {
        async fn join(&self, Vec<Ready<u8>>) -> Vec<u8>;
        async fn join2(&self, Ready<u8>, Fut<()>) -> (u8, ());
        async fn join3(&self, Ready<u8>, Fut<()>, Fut<String>) -> (u8, (), String);
        async fn select2(&self, Ready<u8>, Fut<()>) -> Either2<u8, ()>;
        async fn select3(&self, Ready<u8>, Fut<()>, Fut<String>) -> Either3<u8, (), String>;
    })
}

fn state() -> Vec<&'static str> {
    methods!(OrchestrationContext {
        async fn new_guid(&self) -> Result<String, String>;
        async fn utc_now(&self) -> Result<SystemTime, String>;
        fn set_custom_status(&self, S);
        fn reset_custom_status(&self);
        fn get_custom_status(&self) -> Option<String>;
        fn set_kv_value(&self, S, S);
        fn get_kv_value(&self, &str) -> Option<String>;
        fn set_kv_value_typed<In>(&self, S, &In);
        fn get_kv_value_typed<Out>(&self, &str) -> Result<Option<Out>, String>;
        fn get_kv_all_values(&self) -> HashMap<String, String>;
        fn get_kv_all_keys(&self) -> Vec<String>;
        fn get_kv_length(&self) -> usize;
        fn clear_kv_value(&self, S);
        fn clear_all_kv_values(&self);
        fn prune_kv_values_updated_before(&self, u64) -> usize;
        fn get_kv_value_from_instance(&self, S, S) -> Fut<Result<Option<String>, String>>;
        fn get_kv_value_from_instance_typed<Out>(&self, S, S) -> Fut<Result<Option<Out>, String>>;
        fn get_system_stats(&self) -> Option<SystemStats>;
    })
}

fn traces() -> Vec<&'static str> {
    let methods = methods!(OrchestrationContext {
        fn trace(&self, S, S);
        fn trace_info(&self, S);
        fn trace_warn(&self, S);
        fn trace_error(&self, S);
        fn trace_debug(&self, S);
        fn is_replaying(&self) -> bool;
        fn instance_id(&self) -> String;
        fn execution_id(&self) -> u64;
        fn orchestration_name(&self) -> String;
        fn orchestration_version(&self) -> String;
    });
    let traits = traits! {
        OrchestrationContext: Clone, Send;
    };
    [methods, traits].concat()
}

fn futures() -> Vec<&'static str> {
    let methods = methods!(Fut<RS> {
        fn map(self, fn(RS) -> usize) -> Fut<usize>;
        fn with_tag(self, S) -> Fut<RS>;
        fn into_activity(self) -> Fut<RS>;
        fn into_timer(self) -> Fut<RS>;
        fn into_event(self) -> Fut<RS>;
        fn into_sub_orchestration(self) -> Fut<RS>;
    });
    let traits = traits! {
        Fut<RS>: Send, std::future::Future<Output = RS>;
    };
    [methods, traits].concat()
}

type Two = Either2<u8, u16>;
type Three = Either3<u8, u16, u32>;
type SameTwo = Either2<u8, u8>;
type SameThree = Either3<u8, u8, u8>;

fn eithers() -> Vec<&'static str> {
    assert_eq!([Two::First(1).index(), Two::Second(1).index()], [0, 1]);
    assert_eq!([Three::First(1).index(), Three::Second(1).index(), Three::Third(1).index()], [0, 1, 2]);
    assert_eq!([SameTwo::First(7).into_tuple(), SameTwo::Second(7).into_tuple()], [(0, 7), (1, 7)]);
    assert_eq!(SameThree::Third(7).into_tuple(), (2, 7));
    [
        variants!(closed Two { First(u8), Second(u16) }),
        variants!(closed Three { First(u8), Second(u16), Third(u32) }),
        methods!(Two {
            fn is_first(&self) -> bool;
            fn is_second(&self) -> bool;
            fn index(&self) -> usize;
        }),
        methods!(Three {
            fn is_first(&self) -> bool;
            fn is_second(&self) -> bool;
            fn index(&self) -> usize;
        }),
        methods!(SameTwo {
            fn into_tuple(self) -> (usize, u8);
        }),
        methods!(SameThree {
            fn into_tuple(self) -> (usize, u8);
        }),
    ]
    .concat()
}
