//! What the history holds besides schedules: values, statuses, times, random ids, ends.

use duroxide::{OrchestrationContext, OrchestrationRegistryBuilder};

pub(crate) fn register(builder: OrchestrationRegistryBuilder) -> OrchestrationRegistryBuilder {
    builder
        .register("State", |ctx: OrchestrationContext, _input: String| async move { state(&ctx).await })
        .register("Returns", |ctx: OrchestrationContext, input: String| async move {
            let (word, text) = input.split_once(' ').unwrap_or((&input, ""));
            let open = ctx.schedule_activity("Hold", "never awaited");
            let noted = ctx.schedule_activity("Note", text).await?;
            drop(open);
            let still_open = ctx.schedule_sub_orchestration("Waiter", "");
            ctx.schedule_activity("Note", "before the end").await?;
            let end = match word {
                "ok" => Ok(noted),
                "error" => Err(noted),
                _ => panic!("{noted}"),
            };
            drop(still_open);
            end
        })
        .register("HoldsOpen", |ctx: OrchestrationContext, _input: String| async move {
            let activity = ctx.schedule_activity("Hold", "open");
            let child = ctx.schedule_sub_orchestration("Waiter", "");
            let noted = ctx.schedule_activity("Note", "enough").await?;
            if ctx.execution_id() == 1 {
                // Both are open when the execution ends.
                return ctx.continue_as_new(noted).await;
            }
            let (activity, child) = ctx.join2(activity, child).await;
            Ok(format!("{activity:?} {child:?}"))
        })
}

async fn state(ctx: &OrchestrationContext) -> Result<String, String> {
    ctx.set_kv_value("a", "1");
    ctx.set_kv_value("b", "2");
    ctx.set_kv_value("c", "3");
    ctx.set_custom_status("one");
    let guid = ctx.new_guid().await?;
    let now = ctx.utc_now().await?;
    let now_ms =
        now.duration_since(std::time::UNIX_EPOCH).map_err(|_| "before 1970".to_string())?.as_millis();
    ctx.clear_kv_value("b");
    ctx.clear_kv_value("nothing");
    let other = ctx.get_kv_value_from_instance("values-done", "key 0").await?;
    let typed: Option<Option<String>> = ctx.get_kv_value_from_instance_typed("values-done", "key 1").await?;
    ctx.reset_custom_status();
    ctx.set_custom_status(format!("{guid} {other:?} {typed:?}"));
    ctx.schedule_activity("Note", format!("{guid} {now_ms}")).await?;
    let own = ctx.get_kv_value_from_instance(ctx.instance_id(), "a").await?;
    let pruned = ctx.prune_kv_values_updated_before(u64::try_from(now_ms).unwrap_or(0) + 1);
    ctx.set_kv_value("d", pruned.to_string());
    let stats = format!("{:?}", ctx.get_system_stats());
    ctx.schedule_activity("Hold", stats).await?;
    ctx.clear_all_kv_values();
    ctx.set_kv_value("e", "5");
    Ok(format!("{guid} {now_ms} {other:?} {typed:?} {own:?} {pruned} {:?}", ctx.get_kv_all_keys()))
}
