//! What an activity can do and know.

use duroxide::{ActivityContext, Client};
use tokio_util::sync::CancellationToken;

use crate::notation::{S, methods, traits};

pub(crate) fn checked() -> Vec<&'static str> {
    let methods = methods!(ActivityContext {
        fn instance_id(&self) -> &str;
        fn execution_id(&self) -> u64;
        fn orchestration_name(&self) -> &str;
        fn orchestration_version(&self) -> &str;
        fn activity_name(&self) -> &str;
        fn worker_id(&self) -> &str;
        fn session_id(&self) -> Option<&str>;
        fn tag(&self) -> Option<&str>;
        fn trace_info(&self, S);
        fn trace_warn(&self, S);
        fn trace_error(&self, S);
        fn trace_debug(&self, S);
        fn is_cancelled(&self) -> bool;
        async fn cancelled(&self);
        fn cancellation_token(&self) -> CancellationToken;
        fn get_client(&self) -> Client;
        fn activity_id(&self) -> u64;
        fn attempt(&self) -> u32;
        fn idempotency_key(&self) -> String;
    });
    let traits = traits! {
        ActivityContext: Clone, Send;
    };
    [methods, traits].concat()
}
