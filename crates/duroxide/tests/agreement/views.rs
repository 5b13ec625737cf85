//! Everything that can be read of a store.

use duroxide::providers::{InstanceQuery, Provider, ProviderAdmin};

use super::translation::in_words;

/// Everything that can be read of a store, as lines to compare.
pub(crate) async fn everything(store: &dyn Provider, instances: &[String]) -> Vec<String> {
    let admin = store.as_management_capability().expect("both stores have the management calls");
    let mut lines = Vec::new();
    whole_store(admin, &mut lines).await;
    for instance in instances {
        one_instance(store, instance, &mut lines).await;
        management_of(admin, instance, &mut lines).await;
    }
    lines
}

async fn whole_store(admin: &dyn ProviderAdmin, lines: &mut Vec<String>) {
    lines.push(format!("instances: {}", in_words(&admin.list_instances().await)));
    for status in ["Running", "Completed", "Failed", "ContinuedAsNew", "?"] {
        lines.push(format!("{status}: {}", in_words(&admin.list_instances_by_status(status).await)));
    }
    pages(admin, lines).await;
    lines.push(format!("metrics: {}", in_words(&admin.get_system_metrics().await)));
    lines.push(format!("oldest: {}", in_words(&admin.oldest_ready().await)));
    lines.push(format!("depths: {}", in_words(&admin.get_queue_depths().await)));
}

/// Pages of several queries. The cursors are each store's own.
async fn pages(admin: &dyn ProviderAdmin, lines: &mut Vec<String>) {
    let text = |text: &str| Some(text.to_string());
    let queries = [
        InstanceQuery::default(),
        InstanceQuery { status: text("Completed"), with_output: true, ..Default::default() },
        InstanceQuery { parent: text(&super::items::instance_name(0)), ..Default::default() },
        InstanceQuery { id_prefix: text("i"), status: text("Running"), ..Default::default() },
    ];
    for query in queries {
        let mut query = InstanceQuery { limit: Some(2), ..query };
        loop {
            let page = match admin.list_instances_page(&query).await {
                Ok(page) => page,
                Err(error) => return lines.push(format!("page: {error}")),
            };
            lines.push(format!("page, more: {}, {:?}", page.next.is_some(), page.instances));
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
    }
    for keep_last in [1, 2] {
        lines.push(format!("to prune: {}", in_words(&admin.list_instances_to_prune(keep_last, 3).await)));
    }
}

async fn one_instance(store: &dyn Provider, instance: &str, lines: &mut Vec<String>) {
    let mut line = |what: &str, text: String| lines.push(format!("{instance} {what}: {text}"));
    line("status", in_words(&store.orchestration_status(instance).await));
    line("history", in_words(&store.read(instance).await));
    for execution_id in 0..4 {
        let history = store.read_with_execution(instance, execution_id).await;
        line(&format!("history {execution_id}"), in_words(&history));
    }
    for seen in [0, 1, 3] {
        line("custom status", in_words(&store.get_custom_status(instance, seen).await));
    }
    let values = store.get_kv_all_values(instance).await;
    line("values", in_words(&values.map(std::collections::BTreeMap::from_iter)));
    line("value", in_words(&store.get_kv_value(instance, "key 0").await));
    line("kept", in_words(&store.kept_messages(instance).await));
    // The undecodable text of the test is not as long as what it replaced.
    let stats = store.get_instance_stats(instance).await.map(|stats| {
        stats.map(|mut stats| {
            stats.history_size_bytes = 0;
            stats
        })
    });
    line("stats", in_words(&stats));
}

async fn management_of(admin: &dyn ProviderAdmin, instance: &str, lines: &mut Vec<String>) {
    let mut line = |what: &str, text: String| lines.push(format!("{instance} {what}: {text}"));
    line("info", in_words(&admin.get_instance_info(instance).await));
    line("executions", in_words(&admin.list_executions(instance).await));
    line("latest", in_words(&admin.latest_execution_id(instance).await));
    line("read history", in_words(&admin.read_history(instance).await));
    for execution_id in 1..4 {
        let info = admin.get_execution_info(instance, execution_id).await;
        line(&format!("execution {execution_id}"), in_words(&info));
        let history = admin.read_history_with_execution_id(instance, execution_id).await;
        line(&format!("read history {execution_id}"), in_words(&history));
    }
    line("children", in_words(&admin.list_children(instance).await));
    line("parent", in_words(&admin.get_parent_id(instance).await));
    line("bounces", in_words(&admin.bounces(instance).await));
    line("tree", in_words(&admin.get_instance_tree(instance).await));
}
