//! Texts and names that programs look for, as running instances give them.

use std::time::Duration;

use duroxide::providers::{Provider as _, WorkItem};
use duroxide::runtime::limits;
use duroxide::{
    AppErrorKind, Client, ClientError, ErrorDetails, Event, EventKind, OrchestrationContext, RetryPolicy,
};

use crate::notation::{RS, says};
use crate::programs::{Started, block_on, failure_of, output_of};

pub(crate) fn checked() -> Vec<&'static str> {
    let limits = [broken_limits(), client_limits()].concat();
    let ids = [syscalls(), children(), ids()].concat();
    let ends = [mismatches(), cancels(), ends(), errors()].concat();
    [limits, ids, ends, crate::settled::checked()].concat()
}

/// The text of a failure that breaks a limit.
fn over(details: &ErrorDetails) -> String {
    let ErrorDetails::Application { kind: AppErrorKind::OrchestrationFailed, message, retryable: false } =
        details
    else {
        panic!("expected a failure of the orchestration that is not retryable, got {details:?}")
    };
    message.clone()
}

fn broken_limits() -> Vec<&'static str> {
    let status = failure_of(async |ctx: OrchestrationContext, _| {
        ctx.set_custom_status("x".repeat(limits::MAX_CUSTOM_STATUS_BYTES + 1));
        Ok(String::new())
    });
    let tag = failure_of(async |ctx: OrchestrationContext, _| {
        ctx.schedule_activity("Echo", "").with_tag("x".repeat(limits::MAX_TAG_NAME_BYTES + 1)).await
    });
    let value = failure_of(async |ctx: OrchestrationContext, _| {
        ctx.set_kv_value("k", "x".repeat(limits::MAX_KV_VALUE_BYTES + 1));
        Ok(String::new())
    });
    let keys = failure_of(async |ctx: OrchestrationContext, _| {
        for key in 0..=limits::MAX_KV_KEYS {
            ctx.set_kv_value(key.to_string(), "");
        }
        Ok(String::new())
    });
    vec![
        says("text: Custom status size (", &over(&status), "Custom status size ("),
        says("text: Activity '{name}' tag size (", &over(&tag), "Activity 'Echo' tag size ("),
        says(
            "text: KV value for key '{k}' (.. bytes) exceeds limit (",
            &over(&value),
            "KV value for key 'k' (1048577 bytes) exceeds limit (",
        ),
        says(
            "text: KV key count ({n}) exceeds limit (",
            &over(&keys),
            "KV key count (10001) exceeds limit (",
        ),
    ]
}

/// What the client's start of an instance with this id says.
fn refusal(instance: &str) -> String {
    block_on(async {
        let client = Client::new(std::sync::Arc::new(duroxide::providers::memory::MemoryProvider::new()));
        match client.start_orchestration(instance, "O", "").await {
            Err(ClientError::InvalidInput { message }) => message,
            other => panic!("expected InvalidInput, got {other:?}"),
        }
    })
}

fn client_limits() -> Vec<&'static str> {
    let long = refusal(&"x".repeat(limits::MAX_INSTANCE_ID_BYTES + 1));
    let marked = [refusal("sub::2"), refusal("a::sub::2")];
    let detached = failure_of(async |ctx: OrchestrationContext, _| {
        ctx.schedule_orchestration("Child", "a::sub::2", "");
        Ok(String::new())
    });
    for text in marked.iter().chain([&detached.display_message()]) {
        says("", text, "reserved sub-orchestration marker");
    }
    vec![
        says("a client call over a limit gives InvalidInput", &long, "exceeds limit ("),
        "text: root and detached ids: reserved sub-orchestration marker",
    ]
}

fn syscalls() -> Vec<&'static str> {
    let names = block_on(async {
        let started = Started::with(async |ctx: OrchestrationContext, _| {
            ctx.new_guid().await?;
            ctx.utc_now().await.map_err(|cause| cause.clone())?;
            ctx.get_kv_value_from_instance("other", "k").await?;
            Ok(String::new())
        })
        .await;
        started.start("i").await;
        started.output("i").await;
        let history = started.history("i").await;
        started.stop().await;
        let names = history.into_iter().filter_map(|event| {
            let EventKind::ActivityScheduled { name, .. } = event.kind else { return None };
            Some(name)
        });
        names.collect::<Vec<_>>()
    });
    let prefix = "__duroxide_syscall:";
    assert_eq!(names, ["new_guid", "utc_now_ms", "get_kv_value"].map(|name| format!("{prefix}{name}")));
    let typed = output_of(async |ctx: OrchestrationContext, _| {
        ctx.set_kv_value("k", "no number");
        Ok(ctx.get_kv_value_typed::<u8>("k").expect_err("not a number"))
    });
    vec![
        "history: __duroxide_syscall:new_guid, __duroxide_syscall:utc_now_ms, __duroxide_syscall:get_kv_value",
        says("text: KV deserialization error", &format!("^{typed}"), "^KV deserialization error"),
    ]
}

fn children() -> Vec<&'static str> {
    let collision = output_of(async |ctx: OrchestrationContext, _| {
        let first = ctx.schedule_sub_orchestration_with_id("Child", "own", "");
        let second = ctx.schedule_sub_orchestration_with_id("Child", "own", "");
        let (_, second) = ctx.join2(first, second).await;
        Ok(second.expect_err("the id is taken"))
    });
    let marked = output_of(async |ctx: OrchestrationContext, _| {
        Ok(ctx.schedule_sub_orchestration_with_id("Child", "a::sub::b", "").await.expect_err("a reserved id"))
    });
    vec![
        says(
            "text: sub-orchestration instance id '{id}' already exists",
            &collision,
            "sub-orchestration instance id 'own' already exists",
        ),
        says("text: an explicit child id with the marker: reserved marker", &marked, "reserved marker"),
    ]
}

fn ids() -> Vec<&'static str> {
    async fn twice(ctx: OrchestrationContext, input: String) -> RS {
        ctx.schedule_sub_orchestration("Child", "").await?;
        if input.is_empty() { ctx.continue_as_new("again").await } else { Ok(input) }
    }
    let mut found = block_on(async {
        let started = Started::with(twice).await;
        started.start("i").await;
        started.output("i").await;
        let tree = started.client.get_instance_tree("i").await.expect("a tree");
        started.stop().await;
        tree.all_ids
    });
    found.sort();
    assert_eq!(found, ["i", "i::sub::2", "i::sub::2_2"]);
    vec!["ids: {parent}::sub::{event_id} in execution 1, {parent}::sub::{execution}_{event_id} later"]
}

/// The text with which a program that waits for a timer of id 2 fails when the message arrives.
fn failure_by(message: impl FnOnce(String) -> WorkItem) -> String {
    block_on(async {
        let started = Started::with(wait_an_hour).await;
        started.start("i").await;
        started.until_ready("i").await;
        started.store.enqueue_for_orchestrator(message("i".to_string()), None).await.expect("it is taken");
        let details = started.failure("i").await;
        started.stop().await;
        details.display_message()
    })
}

async fn wait_an_hour(ctx: OrchestrationContext, _input: String) -> RS {
    let timer = ctx.schedule_timer(Duration::from_secs(3600));
    ctx.set_custom_status("ready");
    timer.await;
    Ok(String::new())
}

fn mismatches() -> Vec<&'static str> {
    let kind = failure_by(|instance| WorkItem::ActivityCompleted {
        instance,
        execution_id: 1,
        id: 2,
        result: String::new(),
    });
    let completion = failure_by(|instance| WorkItem::ActivityCompleted {
        instance,
        execution_id: 1,
        id: 99,
        result: String::new(),
    });
    let timer =
        failure_by(|instance| WorkItem::TimerFired { instance, execution_id: 1, id: 99, fire_at_ms: 1 });
    let changed = block_on(async {
        let mut started = Started::with(wait_an_hour).await;
        started.start("i").await;
        started.until_ready("i").await;
        started.deploy(async |ctx: OrchestrationContext, _| ctx.schedule_activity("Echo", "").await).await;
        started.client.raise_event("i", "wake", "").await.expect("it is taken");
        let details = started.failure("i").await;
        started.stop().await;
        details.display_message()
    });
    vec![
        says("text: schedule mismatch", &changed, "schedule mismatch"),
        says(
            "text: completion kind mismatch for id={id}, expected '{a}', got '{b}'",
            &kind,
            "completion kind mismatch for id=2, expected 'timer', got 'activity'",
        ),
        says(
            "text: no matching schedule for completion id={id}",
            &completion,
            "no matching schedule for completion id=99",
        ),
        says("text: no matching schedule for timer id={id}", &timer, "no matching schedule for timer id=99"),
    ]
}

fn cancels() -> Vec<&'static str> {
    let (details, history, child) = block_on(async {
        let started = Started::with(async |ctx: OrchestrationContext, input: String| {
            if input.is_empty() {
                let child = ctx.schedule_sub_orchestration_with_id("Program", "child", "child");
                drop(ctx.schedule_activity("Echo", ""));
                ctx.set_custom_status("ready");
                return child.await;
            }
            ctx.schedule_wait("never").await;
            Ok(String::new())
        })
        .await;
        started.start("i").await;
        started.until_ready("i").await;
        started.client.cancel_instance("i", "why").await.expect("it is taken");
        let details = started.failure("i").await;
        let history = started.history("i").await;
        let child = started.failure("child").await;
        started.stop().await;
        (details, history, child)
    });
    let cancelled = |reason: &str| AppErrorKind::Cancelled { reason: reason.to_string() };
    assert!(
        matches!(&details, ErrorDetails::Application { kind, .. } if *kind == cancelled("why")),
        "{details:?}"
    );
    assert!(
        matches!(&child, ErrorDetails::Application { kind, .. } if *kind == cancelled("parent canceled")),
        "{child:?}"
    );
    assert_eq!(cancel_reasons(history), ["dropped_future", "orchestration_terminal"]);
    vec![
        "a cancel ends as Failed{Application{Cancelled{reason}}}",
        "text: children of a cancelled instance get \"parent canceled\"",
        "text: a dropped future is cancelled with dropped_future",
        dropped_child(),
    ]
}

fn dropped_child() -> &'static str {
    let child = block_on(async {
        let started = Started::with(async |ctx: OrchestrationContext, input: String| {
            if input.is_empty() {
                let child = ctx.schedule_sub_orchestration_with_id("Program", "child", "child");
                ctx.schedule_timer(Duration::from_millis(1)).await;
                drop(child);
                ctx.schedule_timer(Duration::from_millis(1)).await;
                return Ok(String::new());
            }
            ctx.schedule_wait("never").await;
            Ok(String::new())
        })
        .await;
        started.start("i").await;
        started.output("i").await;
        let details = started.failure("child").await;
        started.stop().await;
        details.display_message()
    });
    says(
        "text: a dropped child gets \"parent dropped sub-orchestration future\"",
        &child,
        "canceled: parent dropped sub-orchestration future",
    )
}

/// Ends while an activity and a child are still open, in the way that the input says.
async fn end_with_open_work(ctx: OrchestrationContext, input: String) -> RS {
    // Dropped, they would be cancelled as dropped futures; forgotten, they are open to the end.
    std::mem::forget(ctx.schedule_activity("Hang", ""));
    std::mem::forget(ctx.schedule_sub_orchestration("Child", ""));
    match input.as_str() {
        "complete" => Ok(input),
        "fail" => Err(input),
        _ => ctx.continue_as_new("complete").await,
    }
}

fn ends() -> Vec<&'static str> {
    for (input, activity) in [
        ("complete", "orchestration_terminal_completed"),
        ("fail", "orchestration_terminal_failed"),
        ("", "orchestration_terminal_continued_as_new"),
    ] {
        let reasons = block_on(async {
            let started = Started::with(end_with_open_work).await;
            started.client.start_orchestration("i", "Program", input).await.expect("it starts");
            started.ended("i").await;
            let history = started.history("i").await;
            started.stop().await;
            cancel_reasons(history)
        });
        assert_eq!(reasons, [activity, "orchestration_terminal"], "{input}");
    }
    vec![
        "reasons: orchestration_terminal, orchestration_terminal_completed, orchestration_terminal_failed, \
         orchestration_terminal_continued_as_new",
    ]
}

/// Why the activities and children of a history were cancelled, in order.
fn cancel_reasons(history: Vec<Event>) -> Vec<String> {
    let reasons = history.into_iter().filter_map(|event| {
        let (EventKind::ActivityCancelRequested { reason }
        | EventKind::SubOrchestrationCancelRequested { reason }) = event.kind
        else {
            return None;
        };
        Some(reason)
    });
    reasons.collect()
}

fn errors() -> Vec<&'static str> {
    let timed_out = output_of(async |ctx: OrchestrationContext, _| {
        let policy = RetryPolicy::new(3).with_timeout(Duration::from_millis(20));
        Ok(ctx.schedule_activity_with_retry("Hang", "", policy).await.expect_err("it hangs"))
    });
    let tagged_timer = failure_of(async |ctx: OrchestrationContext, _| {
        ctx.schedule_timer(Duration::ZERO).with_tag("gpu").await;
        Ok(String::new())
    });
    let (words, unknown) = block_on(async {
        let started = Started::with(async |ctx: OrchestrationContext, input: String| match input.as_str() {
            "" => ctx.continue_as_new("next").await,
            _ => Ok(input),
        })
        .await;
        started.start("i").await;
        started.output("i").await;
        let mut words = Vec::new();
        for execution in started.client.list_executions("i").await.expect("executions") {
            words.push(started.client.get_execution_info("i", execution).await.expect("an execution").status);
        }
        let admin = started.store.as_management_capability().expect("the store has management calls");
        let unknown = admin.get_instance_info("nothing").await.expect_err("no such instance");
        started.stop().await;
        (words, unknown)
    });
    assert_eq!(words, ["ContinuedAsNew", "Completed"]);
    assert!(!unknown.is_retryable());
    vec![
        says("text: timeout: activity timed out", &timed_out, "timeout: activity timed out"),
        says(
            "with_tag on anything but an activity panics",
            &tagged_timer.display_message(),
            "orchestration panicked: with_tag",
        ),
        "status words: Running, Completed, Failed, ContinuedAsNew",
        says("unknown ids: a permanent error containing not found", &unknown.message, "not found"),
    ]
}
