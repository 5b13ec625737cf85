//! Commands that change something, each on a copy of the store.

use expect_test::expect;

use crate::store::{HOSTILE, Place};

#[test]
fn an_instance_is_started_once() {
    let place = Place::copy();
    place.run(&["instance", "start", "Order", "new one", "--input", "\"plain\""]).check(&expect![[r#"
        exit 0
        id      new one
        result  started
        --
    "#]]);
    place.run(&["instance", "start", "Order", "new one", "--input", "\"plain\""]).check(&expect![[r#"
        exit 0
        id      new one
        result  already started with the same input
        --
    "#]]);
    place.run(&["instance", "start", "Order", "new one", "--input", "\"other\""]).check(&expect![[r#"
        exit 5
        --
        error: the id 'new one' is taken by an instance of 'Order'; nothing was changed
        help: duroxide instance show ID
    "#]]);
    place.run(&["instance", "start", "Order"]).check(&expect![[r#"
        exit 2
        --
        error: the following required arguments were not provided:
          <ID>

        Usage: duroxide instance start <NAME> <ID>

        For more information, try '--help'.
    "#]]);
}

#[test]
fn one_instance_is_cancelled_without_a_question() {
    let place = Place::copy();
    place.run(&["instance", "cancel", "with space", "--reason", "test"]).check(&expect![[r#"
        exit 0
        ID          RESULT
        with space  cancel requested
        --
    "#]]);
    place.run(&["instance", "cancel", "order-1"]).check(&expect![[r#"
        exit 5
        --
        error: instance 'order-1' has ended
    "#]]);
    place.run(&["instance", "cancel", "unknown"]).check(&expect![[r#"
        exit 4
        --
        error: no instance has the id 'unknown'
        help: duroxide instance list --prefix TEXT
    "#]]);
    place.run(&["instance", "cancel"]).check(&expect![[r#"
        exit 2
        --
        error: no instance is named: give ids, `-` for standard input, or a filter such as --status
    "#]]);
}

#[test]
fn many_are_changed_only_with_consent() {
    let place = Place::copy();
    place.run(&["instance", "cancel", "--status", "running"]).check(&expect![[r#"
        exit 2
        --
        2 instances would be cancelled:
          it's "quoted"\nand \u{1b}[31mred
          with space
        error: nobody can be asked here, and nothing was changed
        help: --yes does it, --dry-run only tells
    "#]]);
    place.run(&["instance", "cancel", "--status", "running", "--dry-run"]).check(&expect![[r#"
        exit 0
        --
        2 instances would be cancelled:
          it's "quoted"\nand \u{1b}[31mred
          with space
    "#]]);
    let queued = place.run(&["queue", "list", "-o", "json"]).json();
    assert_eq!(queued[0]["waiting"], 0, "nothing was changed so far");
    place.run(&["instance", "cancel", "--status", "running", "--yes"]).check(&expect![[r#"
        exit 0
        ID                                RESULT
        it's "quoted"\nand \u{1b}[31mred  cancel requested
        with space                        cancel requested
        --
    "#]]);
    place.run(&["instance", "cancel", "--name", "Nothing", "--yes"]).check(&expect![[r#"
        exit 0
        --
        no instances match: nothing to do
    "#]]);
}

#[test]
fn ids_are_read_from_standard_input() {
    let place = Place::copy();
    let ids = place.run(&["instance", "list", "--status", "running", "-o", "ids"]).stdout;
    assert_eq!(place.run_with_input(&["instance", "cancel", "-"], &ids).exit, 2, "it cannot be asked");
    place.run_with_input(&["instance", "cancel", "-", "--yes"], &ids).check(&expect![[r#"
        exit 0
        ID                                RESULT
        it's "quoted"\nand \u{1b}[31mred  cancel requested
        with space                        cancel requested
        --
    "#]]);
}

#[test]
fn instances_are_deleted_with_their_trees() {
    let place = Place::copy();
    place.run(&["instance", "delete", "with space"]).check(&expect![[r#"
        exit 5
        --
        error: instance 'with space' is still running
        help: duroxide instance cancel ID, or delete it with --force
    "#]]);
    place.run(&["instance", "delete", "ship-7"]).check(&expect![[r#"
        exit 5
        --
        error: instance 'ship-7' is a child: its root is deleted with all its children
        help: duroxide instance show ID names the parent
    "#]]);
    place.run(&["instance", "delete", "order-2"]).check(&expect![[r#"
        exit 0
        ID       RESULT
        order-2  deleted with 1 children
        --
    "#]]);
    place.run(&["instance", "delete", HOSTILE, "--force"]).check(&expect![[r#"
        exit 0
        ID                                RESULT
        it's "quoted"\nand \u{1b}[31mred  deleted
        --
    "#]]);
    place.run(&["instance", "delete", "unknown"]).check(&expect![[r#"
        exit 4
        --
        error: no instance has the id 'unknown'
        help: duroxide instance list --prefix TEXT
    "#]]);
    place.run(&["instance", "delete", "--status", "failed", "--yes"]).check(&expect![[r#"
        exit 0
        ID       RESULT
        order-4  deleted
        order-3  deleted
        --
    "#]]);
}

#[test]
fn a_redrive_says_why_not() {
    let place = Place::copy();
    place.run(&["instance", "redrive", "order-3"]).check(&expect![[r#"
        exit 5
        --
        error: instance 'order-3' cannot be redriven: it failed of itself (application); only what was poisoned or could not be replayed goes on after a fix
    "#]]);
    place.run(&["instance", "redrive", "order-1"]).check(&expect![[r#"
        exit 5
        --
        error: instance 'order-1' cannot be redriven: it has not failed
    "#]]);
    place.run(&["instance", "redrive", "unknown"]).check(&expect![[r#"
        exit 4
        --
        error: no instance has the id 'unknown'
        help: duroxide instance list --prefix TEXT
    "#]]);
    place.run(&["instance", "redrive", "--status", "failed", "--yes"]).check(&expect![[r#"
        exit 1
        ID       RESULT
        order-4  not changed: instance 'order-4' cannot be redriven: it failed of itself (application); only what was poisoned or could not be replayed goes on after a fix
        order-3  not changed: instance 'order-3' cannot be redriven: it failed of itself (application); only what was poisoned or could not be replayed goes on after a fix
        --
    "#]]);
}

#[test]
fn events_say_what_became_of_them() {
    let place = Place::copy();
    place.run(&["event", "raise", "with space", "approved", "\"yes\""]).check(&expect![[r#"
        exit 0
        id      with space
        name    approved
        result  delivered
        --
    "#]]);
    place.run(&["event", "enqueue", "with space", "notes", "\"hello\""]).check(&expect![[r#"
        exit 0
        id      with space
        name    notes
        result  delivered
        --
    "#]]);
    place.run(&["event", "raise", "order-1", "approved"]).check(&expect![[r#"
        exit 5
        --
        error: instance 'order-1' has ended: the message reached nothing
        help: duroxide instance show ID
    "#]]);
    place.run(&["event", "raise", "unknown", "approved"]).check(&expect![[r#"
        exit 0
        id      unknown
        name    approved
        result  kept until the instance is started or redriven
        --
    "#]]);
}

#[test]
fn old_executions_are_pruned() {
    let place = Place::copy();
    place.run(&["prune", "order-1", "--keep-last", "1"]).check(&expect![[r#"
        exit 0
        executions deleted  0
        events deleted      0
        --
    "#]]);
    place.run(&["prune", "--keep-last", "1", "--dry-run"]).check(&expect![[r#"
        exit 0
        --
        no instances match: nothing to do
    "#]]);
    place.run(&["prune", "unknown", "--keep-last", "1"]).check(&expect![[r#"
        exit 4
        --
        error: no instance has the id 'unknown'
        help: duroxide instance list --prefix TEXT
    "#]]);
    place.run(&["prune"]).check(&expect![[r#"
        exit 2
        --
        error: the following required arguments were not provided:
          --keep-last <N>

        Usage: duroxide prune --keep-last <N> [IDS]...

        For more information, try '--help'.
    "#]]);
}

#[test]
fn a_backup_is_a_store() {
    let place = Place::copy();
    let copy = place.directory().join("copy.db").display().to_string();
    place.run(&["store", "backup", &copy]).check(&expect![[r#"
        exit 0
        backup  [DIR]/copy.db
        --
    "#]]);
    place.run(&["store", "backup", &copy]).check(&expect![[r#"
        exit 3
        --
        error: '[DIR]/copy.db' exists: name a new file
    "#]]);
    let counted =
        place.run_plain(&["--store", &format!("sqlite:{copy}"), "instance", "count", "-o", "json"], "");
    assert_eq!(counted.json()["instances"], 7);
}
