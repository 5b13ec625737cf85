//! Changed code: what no longer fits its history fails and says why.

use std::time::Duration;

use duroxide::{ActivityContext, OrchestrationContext};

use crate::common::{World, activities, options, orchestrations};

#[tokio::test(start_paused = true)]
async fn changed_code_fails_as_nondeterministic_and_says_what_differs() {
    let world = World::new();
    let orchs = |activity: &'static str| {
        orchestrations().register("Changes", move |ctx: OrchestrationContext, _input: String| async move {
            let result = ctx.schedule_activity(activity, "in").await?;
            ctx.schedule_wait("go").await;
            Ok(result)
        })
    };
    let acts =
        || activities().register("Old", |_ctx: ActivityContext, input: String| async move { Ok(input) });
    let runtime = world.start(acts(), orchs("Old"), options()).await;
    world.client.start_orchestration("i", "Changes", "").await.expect("start");
    tokio::time::sleep(Duration::from_secs(1)).await;
    runtime.shutdown(None).await;
    let runtime = world.start(acts(), orchs("New"), options()).await;
    world.client.raise_event("i", "go", "").await.expect("raise");
    let text = world.failure("i").await.display_message();
    assert_eq!(
        text,
        "nondeterministic: schedule mismatch at event 2: recorded activity 'Old' (input of 2 bytes), but the code \
         now asks for activity 'New' (input of 2 bytes); differs in name (recorded 'Old', now 'New')"
    );
    runtime.shutdown(None).await;
}
