//! Stores that cannot be used, and arguments that are wrong.

use duroxide::providers::sqlite::rusqlite::Connection;
use expect_test::expect;

use crate::store::Place;

/// One command of every noun that opens the store.
const NOUNS: [&[&str]; 10] = [
    &["instance", "list"],
    &["instance", "cancel", "a"],
    &["event", "raise", "a", "b"],
    &["kv", "list", "a"],
    &["node", "list"],
    &["health", "check"],
    &["queue", "list"],
    &["failures"],
    &["prune", "--keep-last", "1"],
    &["instance", "start", "O", "a"],
];

#[test]
fn a_missing_store_is_not_created() {
    let place = Place::empty();
    place.run(&["instance", "list"]).check(&expect![[r#"
        exit 3
        --
        error: '[DIR]/store.db' does not exist: check the path, or let mode=rwc create it
        help: duroxide store info
    "#]]);
    place.run(&["store", "info"]).check(&expect![[r#"
        exit 3
        --
        error: '[DIR]/store.db' does not exist: check the path, or let mode=rwc create it
        help: check --store, or duroxide config
    "#]]);
    place.run(&["store", "migrate"]).check(&expect![[r#"
        exit 3
        --
        error: '[DIR]/store.db' does not exist: check the path, or let mode=rwc create it
        help: duroxide store info; --create creates a store that is missing
    "#]]);
    for noun in NOUNS {
        assert_eq!(place.run(noun).exit, 3, "{noun:?}");
    }
    assert!(!place.path().exists());
}

#[test]
fn an_unreachable_server_is_named() {
    let place = Place::empty();
    let ran =
        place.run_plain(&["--store", "postgres://nobody:secret@127.0.0.1:1/none", "instance", "list"], "");
    assert_eq!(ran.exit, 3, "{}", ran.stderr);
    assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    place.run_plain(&["--store", "mysql://x", "instance", "list"], "").check(&expect![[r#"
        exit 3
        --
        error: the URL names no store: it must begin with `sqlite:` or `postgres:`
        help: duroxide store info
    "#]]);
    place.run_plain(&["--store", "postgres://a@b/c", "store", "backup", "x.dump"], "").check(&expect![[r#"
        exit 3
        --
        error: a PostgreSQL store is backed up by the tools of its server, for instance `pg_dump --format=custom --schema=duroxide --file=x.dump`
    "#]]);
}

#[test]
fn a_newer_schema_is_refused_and_stays_as_it_is() {
    let place = Place::copy();
    Connection::open(place.path()).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let before = std::fs::read(place.path()).unwrap();
    for noun in NOUNS {
        assert_eq!(place.run(noun).exit, 3, "{noun:?}");
    }
    place.run(&["instance", "list"]).check(&expect![[r#"
        exit 3
        --
        error: '[DIR]/store.db': schema 99 is newer than this build's 6: upgrade every program that uses this file
        help: duroxide store info
    "#]]);
    place.run(&["store", "migrate"]).check(&expect![[r#"
        exit 3
        --
        error: '[DIR]/store.db': schema 99 is newer than this build's 6: upgrade every program that uses this file
        help: duroxide store info; --create creates a store that is missing
    "#]]);
    let doctor = place.run(&["store", "doctor"]);
    assert_eq!(doctor.exit, 5, "{}", doctor.stderr);
    assert!(doctor.stdout.contains("newer than this build's"), "{}", doctor.stdout);
    assert_eq!(std::fs::read(place.path()).unwrap(), before);
}

#[test]
fn an_empty_store_has_nothing_to_show() {
    let place = Place::empty();
    assert_eq!(place.run(&["store", "migrate", "--create"]).exit, 0);
    place.run(&["instance", "list"]).check(&expect![[r#"
        exit 0
        --
        no instances match
    "#]]);
    place.run(&["instance", "list", "-o", "json"]).check(&expect![[r#"
        exit 0
        []
        --
        no instances match
    "#]]);
    place.run(&["failures"]).check(&expect![[r#"
        exit 0
        --
        nothing has failed
    "#]]);
    place.run(&["node", "list"]).check(&expect![[r#"
        exit 0
        --
        no node was seen within a day
    "#]]);
    place.run(&["health", "check"]).check(&expect![[r#"
        exit 0
        --
        nothing is wrong
    "#]]);
    place.run(&["instance", "count", "-o", "json"]).check(&expect![[r#"
        exit 0
        {
          "instances": 0
        }
        --
    "#]]);
}

#[test]
fn wrong_words_are_named() {
    let place = Place::known();
    for arguments in [
        &["instance", "frobnicate"][..],
        &["instance", "list", "--status", "sleeping"],
        &["instance", "list", "--created-after", "soon"],
        &["instance", "list", "-o", "xml"],
        &["instance", "show"],
        &["kv", "get", "a"],
        &["event", "raise", "a"],
        &["prune", "--keep-last", "0"],
        &["completions", "tcl"],
        &["replay"],
        &["replay", "--running"],
    ] {
        let ran = place.run(arguments);
        assert_eq!(ran.exit, 2, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty() && ran.stderr.contains("error:"), "{arguments:?}");
    }
    place.run_plain(&["instance", "list"], "").check(&expect![[r#"
        exit 2
        --
        error: no store is named
        help: --store sqlite:PATH, --store postgres://USER@HOST/DATABASE, or DUROXIDE_STORE in the environment
    "#]]);
}

#[test]
fn a_profile_names_the_store() {
    let place = Place::copy();
    let config = format!("default = 'here'\n[profiles.here]\nstore = '{}'\n", place.url());
    std::fs::write(place.directory().join("config.toml"), config).unwrap();
    assert_eq!(place.run_plain(&["instance", "count", "-o", "json"], "").json()["instances"], 7);
    place.run_plain(&["config"], "").check(&expect![[r#"
        exit 0
        file     [DIR]/config.toml
        store    sqlite:[DIR]/store.db
        default  here
        profile  here: sqlite:[DIR]/store.db
        --
    "#]]);
    place.run_plain(&["instance", "list", "--profile", "there"], "").check(&expect![[r#"
        exit 2
        --
        error: no profile is called 'there'; there are: here
        help: duroxide config
    "#]]);
    std::fs::write(place.directory().join("config.toml"), "colour = 'red'\n").unwrap();
    assert_eq!(place.run_plain(&["config"], "").exit, 2);
}
