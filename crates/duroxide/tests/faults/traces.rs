//! Traces of an orchestration are written once: not again at a replay, and also when an answer is lost. Each line says
//! in fields where it comes from.

use duroxide::{ActivityContext, BackoffStrategy, OrchestrationContext, RetryPolicy, RuntimeOptions};

use crate::common::{Fault, World, activities, options, orchestrations};
use crate::log::Log;

#[tokio::test(start_paused = true)]
async fn a_trace_is_written_once_also_when_the_answer_to_its_commit_is_lost() {
    for faults in [vec![], vec![Fault::LoseAnswer; 3], vec![Fault::FailBefore, Fault::LoseAnswer]] {
        let log = Log::listen();
        let world = World::new();
        let acts = activities().register("Echo", |_ctx: ActivityContext, input: String| async { Ok(input) });
        let orchs =
            orchestrations().register("Tell", |ctx: OrchestrationContext, input: String| async move {
                ctx.trace_info("line one");
                let echoed = ctx.schedule_activity("Echo", input).await?;
                ctx.trace_warn("line two");
                let echoed = ctx.schedule_activity("Echo", echoed).await?;
                ctx.trace_error("line three");
                Ok(echoed)
            });
        // After a lost answer the next turn replays what was committed.
        world.store.plan("ack_orchestration_item", faults.clone());
        let runtime = world.start(acts, orchs, options()).await;
        world.client.start_orchestration("i", "Tell", "x").await.expect("start");
        assert_eq!(world.output("i").await, "x");
        runtime.shutdown(None).await;
        for (level, line) in [("INFO", "line one"), ("WARN", "line two"), ("ERROR", "line three")] {
            let lines = log.lines(level);
            let count = lines.iter().filter(|text| text.contains(line)).count();
            assert_eq!(count, 1, "{line}, with {faults:?}: {lines:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_of_a_program_names_its_instance_execution_orchestration_activity_and_worker() {
    let log = Log::listen();
    let world = World::new();
    let acts = activities().register("Echo", |ctx: ActivityContext, input: String| async move {
        ctx.trace_info("of the activity");
        Ok(input)
    });
    let orchs = orchestrations().register_versioned(
        "Tell",
        "1.2.0",
        |ctx: OrchestrationContext, input: String| async move {
            ctx.trace_info(format!("first turn of {input}"));
            ctx.schedule_activity("Echo", "").await?;
            ctx.trace_info(format!("second turn of {input}"));
            if input == "one" { ctx.continue_as_new("two").await } else { Ok(input) }
        },
    );
    let node = RuntimeOptions { worker_node_id: Some("node-7".to_string()), ..options() };
    let runtime = world.start(acts, orchs, node).await;
    world.client.start_orchestration("i", "Tell", "one").await.expect("start");
    assert_eq!(world.output("i").await, "two");
    runtime.shutdown(None).await;
    let lines = log.lines("INFO");
    for (execution, input) in [(1, "one"), (2, "two")] {
        for turn in ["first", "second"] {
            let line = format!(
                "duroxide::orchestration: {turn} turn of {input} instance_id=i execution_id={execution} \
                 orchestration_name=Tell orchestration_version=1.2.0 worker_id=node-7"
            );
            assert!(lines.iter().any(|found| found.ends_with(&line)), "{line}\n{lines:#?}");
        }
        let line = format!(
            "duroxide::activity: of the activity instance_id=i execution_id={execution} orchestration_name=Tell \
             orchestration_version=1.2.0 activity_name=Echo activity_id=2 attempt=1 worker_id=node-7"
        );
        assert!(lines.iter().any(|found| found.ends_with(&line)), "{line}\n{lines:#?}");
    }
}

/// The lines of the runtime about one instance, without the time: `LEVEL line fields`.
fn life(log: &Log, instance: &str) -> Vec<String> {
    let mut lines = log.all();
    lines.retain(|line| {
        line.contains("duroxide::runtime:") && line.contains(&format!("instance_id={instance} "))
    });
    lines.iter().map(|line| line.split_once("Z ").map_or("", |(_, rest)| rest).trim().to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_log_tells_the_life_of_an_instance_without_its_payloads() {
    let log = Log::listen();
    let world = World::new();
    let acts = activities().register("Flaky", |ctx: ActivityContext, input: String| async move {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        if ctx.attempt() == 1 { Err(format!("no {input}")) } else { Ok(input) }
    });
    let orchs = orchestrations().register("Life", |ctx: OrchestrationContext, input: String| async move {
        let policy = RetryPolicy::new(2).with_backoff(BackoffStrategy::None);
        let result = ctx.schedule_activity_with_retry("Flaky", input, policy).await?;
        if ctx.execution_id() == 1 { ctx.continue_as_new(result).await } else { Err(result) }
    });
    let node = RuntimeOptions { worker_node_id: Some("node-7".to_string()), ..options() };
    let runtime = world.start(acts, orchs, node).await;
    world.client.start_orchestration("i", "Life", "secret").await.expect("start");
    world.failure("i").await;
    runtime.shutdown(None).await;
    let lines = life(&log, "i");
    assert!(lines.iter().all(|line| !line.contains("secret")), "{lines:#?}");
    let told: Vec<&str> = lines
        .iter()
        .map(|line| line.split_once(" instance_id=").map_or("", |(told, _)| told))
        .filter(|told| !told.ends_with("turn committed"))
        .collect();
    let of_activity = [
        "DEBUG duroxide::runtime: activity started",
        "DEBUG duroxide::runtime: activity ended",
        "DEBUG duroxide::runtime: activity failed",
        "DEBUG duroxide::runtime: activity retried",
        "DEBUG duroxide::runtime: activity ended",
        "DEBUG duroxide::runtime: activity completed",
    ];
    let mut expected = vec!["INFO duroxide::runtime: instance started"];
    expected.extend(of_activity);
    expected.push("DEBUG duroxide::runtime: execution continued as new");
    expected.push("DEBUG duroxide::runtime: execution started");
    expected.extend(of_activity);
    expected.push("INFO duroxide::runtime: instance failed");
    assert_eq!(told, expected, "{lines:#?}");
    let of_execution = "orchestration_name=Life orchestration_version=1.0.0 worker_id=node-7";
    for part in [
        format!("instance started instance_id=i execution_id=1 {of_execution}"),
        format!(
            "instance failed instance_id=i execution_id=2 {of_execution} duration_ms=4000 category=\"application\" \
             kind=\"orchestration_failed\""
        ),
        "activity_name=Flaky activity_id=2 attempt=1 worker_id=node-7 outcome=\"failed\" duration_ms=1000"
            .to_string(),
        "attempt=2 worker_id=node-7 outcome=\"completed\" duration_ms=1000".to_string(),
    ] {
        assert!(lines.iter().any(|line| line.contains(&part)), "{part}\n{lines:#?}");
    }
    let turns = lines.iter().filter(|line| line.contains("turn committed")).count();
    assert!(turns >= 6, "{lines:#?}");
}
