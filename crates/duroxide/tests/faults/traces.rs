//! Traces of an orchestration are written once: not again at a replay, and also when an answer is lost.

use duroxide::{ActivityContext, OrchestrationContext};

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
