//! Commands that change nothing.

use expect_test::{Expect, expect};

use crate::store::{HOSTILE, Place};

fn check(arguments: &[&str], expected: &Expect) {
    Place::known().run(arguments).check(expected);
}

#[test]
fn instances_are_listed_with_hostile_ids_escaped() {
    check(
        &["instance", "list"],
        &expect![[r#"
        exit 0
        ID                                STATUS     ORCHESTRATION  CREATED              UPDATED
        it's "quoted"\nand \u{1b}[31mred  Running    Order          YYYY-MM-DD hh:mm:ss  YYYY-MM-DD hh:mm:ss
        with space                        Running    Order          YYYY-MM-DD hh:mm:ss  YYYY-MM-DD hh:mm:ss
        order-4                           Failed     Order          YYYY-MM-DD hh:mm:ss  YYYY-MM-DD hh:mm:ss
        order-3                           Failed     Order          YYYY-MM-DD hh:mm:ss  YYYY-MM-DD hh:mm:ss
        ship-7                            Completed  Ship           YYYY-MM-DD hh:mm:ss  YYYY-MM-DD hh:mm:ss
        order-2                           Completed  Order          YYYY-MM-DD hh:mm:ss  YYYY-MM-DD hh:mm:ss
        order-1                           Completed  Order          YYYY-MM-DD hh:mm:ss  YYYY-MM-DD hh:mm:ss
        --
    "#]],
    );
    check(
        &["instance", "list", "--status", "failed", "-o", "wide"],
        &expect![[r#"
        exit 0
        ID       STATUS  ORCHESTRATION  VERSION  EXECUTION  CREATED              UPDATED              PARENT
        order-4  Failed  Order          1.0.0    1          YYYY-MM-DD hh:mm:ss  YYYY-MM-DD hh:mm:ss
        order-3  Failed  Order          1.0.0    1          YYYY-MM-DD hh:mm:ss  YYYY-MM-DD hh:mm:ss
        --
    "#]],
    );
    check(
        &["instance", "list", "--prefix", "order-", "-o", "ids"],
        &expect![[r#"
        exit 0
        order-1
        order-2
        order-3
        order-4
        --
    "#]],
    );
    check(
        &["instance", "list", "--limit", "1"],
        &expect![[r#"
            exit 0
            ID                                STATUS   ORCHESTRATION  CREATED              UPDATED
            it's "quoted"\nand \u{1b}[31mred  Running  Order          YYYY-MM-DD hh:mm:ss  YYYY-MM-DD hh:mm:ss
            --
            there are more: --after 't:MS:7', or --all
        "#]],
    );
    check(
        &["instance", "list", "--name", "Nothing"],
        &expect![[r#"
        exit 0
        --
        no instances match
    "#]],
    );
}

#[test]
fn instances_are_counted() {
    check(
        &["instance", "count"],
        &expect![[r#"
        exit 0
        instances  7
        --
    "#]],
    );
    check(
        &["instance", "count", "--status", "running"],
        &expect![[r#"
        exit 0
        instances  2
        --
    "#]],
    );
}

#[test]
fn one_instance_is_shown() {
    check(
        &["instance", "show", "order-1"],
        &expect![[r#"
        exit 0
        id             order-1
        status         Completed
        orchestration  Order
        version        1.0.0
        execution      1
        executions     1
        created        YYYY-MM-DD hh:mm:ss
        updated        YYYY-MM-DD hh:mm:ss
        output         250
        --
    "#]],
    );
    check(
        &["instance", "show", "order-3"],
        &expect![[r#"
        exit 0
        id             order-3
        status         Failed
        orchestration  Order
        version        1.0.0
        execution      1
        executions     1
        created        YYYY-MM-DD hh:mm:ss
        updated        YYYY-MM-DD hh:mm:ss
        error          card 'visa-17' was refused after 17 s
        category       application
        --
    "#]],
    );
    check(
        &["instance", "show", "with space"],
        &expect![[r#"
        exit 0
        id             with space
        status         Running
        orchestration  Order
        version        1.0.0
        execution      1
        executions     1
        created        YYYY-MM-DD hh:mm:ss
        updated        YYYY-MM-DD hh:mm:ss
        custom status  waiting for approval
        --
    "#]],
    );
    check(
        &["instance", "show", "unknown"],
        &expect![[r#"
        exit 4
        --
        error: no instance has the id 'unknown'
        help: duroxide instance list --prefix TEXT
    "#]],
    );
}

#[test]
fn a_history_is_shown_event_by_event() {
    check(
        &["instance", "history", "order-2"],
        &expect![[r#"
            exit 0
            EVENT  TIME                 KIND                       OF  WHAT
            1      YYYY-MM-DD hh:mm:ss  OrchestrationStarted           input=ships name=Order version=1.0.0
            2      YYYY-MM-DD hh:mm:ss  KeyValueSet                    key=kind last_updated_at_ms=MS value=ships
            3      YYYY-MM-DD hh:mm:ss  SubOrchestrationScheduled      input=7 instance=ship-7 name=Ship
            4      YYYY-MM-DD hh:mm:ss  VersionRequested           3   version=1.0.0
            5      YYYY-MM-DD hh:mm:ss  SubOrchestrationCompleted  3   result=7
            6      YYYY-MM-DD hh:mm:ss  OrchestrationCompleted         output=7
            --
        "#]],
    );
    check(
        &["instance", "history", "order-2", "--execution", "9"],
        &expect![[r#"
        exit 4
        --
        error: 'order-2' has no execution 9; it has 1
    "#]],
    );
    check(
        &["instance", "history", "unknown"],
        &expect![[r#"
        exit 4
        --
        error: no instance has the id 'unknown'
        help: duroxide instance list --prefix TEXT
    "#]],
    );
}

#[test]
fn a_tree_is_indented() {
    check(
        &["instance", "tree", "order-2"],
        &expect![[r#"
        exit 0
        order-2  Completed  Order
          ship-7  Completed  Ship
        --
    "#]],
    );
    check(
        &["instance", "tree", "unknown"],
        &expect![[r#"
        exit 4
        --
        error: no instance has the id 'unknown'
        help: duroxide instance list --prefix TEXT
    "#]],
    );
}

#[test]
fn a_wait_tells_how_it_ended() {
    check(
        &["instance", "wait", "order-1"],
        &expect![[r#"
        exit 0
        ID       STATUS     OUTPUT
        order-1  Completed  250
        --
    "#]],
    );
    check(
        &["instance", "wait", "order-3"],
        &expect![[r#"
        exit 5
        ID       STATUS  OUTPUT
        order-3  Failed  card 'visa-17' was refused after 17 s
        --
    "#]],
    );
    check(
        &["instance", "wait", "with space", "--timeout", "1ms"],
        &expect![[r#"
        exit 6
        --
        error: instance 'with space' has not ended within 1 ms
        help: duroxide instance show ID
    "#]],
    );
    check(
        &["instance", "wait", "unknown"],
        &expect![[r#"
        exit 4
        --
        error: no instance has the id 'unknown'
        help: duroxide instance list --prefix TEXT
    "#]],
    );
}

#[test]
fn values_are_listed_and_read() {
    check(
        &["kv", "list", "order-1"],
        &expect![[r#"
        exit 0
        KEY   VALUE
        kind  plain
        --
    "#]],
    );
    check(
        &["kv", "get", "order-1", "kind"],
        &expect![[r#"
        exit 0
        key    kind
        value  plain
        --
    "#]],
    );
    check(
        &["kv", "get", "order-1", "none"],
        &expect![[r#"
        exit 4
        --
        error: instance 'order-1' has no value for the key 'none'
        help: duroxide kv list ID
    "#]],
    );
    check(
        &["kv", "list", "unknown"],
        &expect![[r#"
        exit 4
        --
        error: no instance has the id 'unknown'
        help: duroxide instance list --prefix TEXT
    "#]],
    );
}

#[test]
fn failures_of_one_cause_are_one_group() {
    check(
        &["failures"],
        &expect![[r#"
        exit 0
        COUNT  ORCHESTRATION  ERROR                             FIRST SEEN           LAST SEEN            LATEST
        2      Order          card '…' was refused after <n> s  YYYY-MM-DD hh:mm:ss  YYYY-MM-DD hh:mm:ss  order-4
        --
    "#]],
    );
    check(
        &["failures", "--name", "Nothing"],
        &expect![[r#"
        exit 0
        --
        nothing has failed
    "#]],
    );
}

#[test]
fn queues_and_health_of_a_store_at_rest() {
    check(
        &["queue", "list"],
        &expect![[r#"
        exit 0
        QUEUE       WAITING  OLDEST  PROBLEM
        messages    0
        activities  0
        timers      0
        --
    "#]],
    );
    check(
        &["health", "check"],
        &expect![[r#"
        exit 0
        --
        nothing is wrong
    "#]],
    );
    check(
        &["health", "repair", "unknown"],
        &expect![[r#"
        exit 4
        --
        error: no instance has the id 'unknown'
        help: duroxide instance list --prefix TEXT
    "#]],
    );
    check(
        &["health", "repair"],
        &expect![[r#"
        exit 2
        --
        error: no instance is named: give ids, `-`, or --all
    "#]],
    );
}

#[test]
fn json_is_read_back() {
    let place = Place::known();
    for arguments in [
        &["instance", "list"][..],
        &["instance", "count"],
        &["instance", "show", HOSTILE],
        &["instance", "history", HOSTILE],
        &["instance", "tree", HOSTILE],
        &["instance", "wait", "order-1"],
        &["kv", "list", HOSTILE],
        &["kv", "get", HOSTILE, "kind"],
        &["failures"],
        &["queue", "list"],
        &["health", "check"],
        &["store", "info"],
        &["store", "doctor"],
        &["config"],
    ] {
        let ran = place.run(&[arguments, &["-o", "json"]].concat());
        assert_eq!(ran.exit, 0, "{arguments:?}: {}", ran.stderr);
        let whole = ran.json();
        let lines = place.run(&[arguments, &["-o", "jsonl"]].concat()).stdout;
        let lines: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(whole.as_array().cloned().unwrap_or_else(|| vec![whole.clone()]).len(), lines.len());
    }
    let shown = place.run(&["instance", "show", HOSTILE, "-o", "json"]).json();
    assert_eq!(shown["id"], HOSTILE);
    assert!(shown["created"].as_str().unwrap().ends_with('Z'), "RFC 3339 in UTC for programs");
    let nodes = place.run(&["node", "list", "-o", "json"]).json();
    assert_eq!((&nodes[0]["node"], &nodes[0]["state"]), (&"node-1".into(), &"left".into()));
}

#[test]
fn a_list_of_ids_leads_back_to_the_instances() {
    let place = Place::known();
    let ids = place.run(&["instance", "list", "--status", "running", "-o", "ids"]).stdout;
    let ran = place.run_with_input(&["instance", "wait", "-", "--timeout", "1ms"], &ids);
    assert_eq!(ran.exit, 6, "both ids exist, and neither has ended: {}", ran.stderr);
}

#[test]
fn the_words_describe_themselves() {
    let place = Place::known();
    assert!(place.run_plain(&["completions", "bash"], "").stdout.contains("_duroxide"));
    assert!(place.run_plain(&["man"], "").stdout.contains(".TH duroxide"));
    assert_eq!(place.run_plain(&["--help"], "").exit, 0);
}
