//! What an opening says when it fails: what is wrong with which path, and what to do about it.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::providers::{ProviderError, ProviderErrorKind};

use crate::fixture::{Place, enqueue, start};

/// One cause and what its error must say.
struct Case {
    name: &'static str,
    /// Brings the cause about; gives the URL, or why this machine cannot have the cause.
    prepare: fn(&Place) -> Result<(String, Guard), String>,
    kind: ProviderErrorKind,
    says: &'static [&'static str],
}

/// Undoes what would keep a directory from being removed.
struct Guard(Vec<(&'static str, Vec<String>)>);

impl Drop for Guard {
    fn drop(&mut self) {
        for (program, arguments) in &self.0 {
            run(program, arguments).unwrap();
        }
    }
}

const NOTHING: Guard = Guard(Vec::new());

fn run(program: &str, arguments: &[String]) -> Result<(), String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Keeps everybody from writing to a file or a directory, root included.
fn protect(path: &Path) -> Result<Guard, String> {
    run("chattr", &["+i".to_string(), text(path)])?;
    Ok(Guard(vec![("chattr", vec!["-i".to_string(), text(path)])]))
}

fn closed_store(place: &Place) {
    let url = place.url();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = SqliteProvider::new(&url, None).await.unwrap();
            enqueue(&store, start("a")).await;
        });
    })
    .join()
    .unwrap();
}

/// The files of a store as a killed process leaves them, without the one with this ending.
fn crashed_without(place: &Place, ending: &str, checkpointed: bool) {
    let from = Place::new();
    let raw = {
        closed_store(&from);
        from.raw()
    };
    if !checkpointed {
        // A database whose schema is still in the log: the first page alone is in the file.
        drop(raw);
        std::fs::remove_file(from.path()).unwrap();
        let raw = from.raw();
        raw.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").unwrap();
        return copy(&from, place, ending);
    }
    raw.execute_batch("UPDATE instances SET name = name").unwrap();
    copy(&from, place, ending);
}

fn copy(from: &Place, to: &Place, without: &str) {
    for ending in ["", "-wal", "-shm"].into_iter().filter(|ending| *ending != without) {
        let source = PathBuf::from(format!("{}{ending}", text(&from.path())));
        std::fs::copy(source, format!("{}{ending}", text(&to.path()))).unwrap();
    }
}

fn wrong_paths() -> Vec<Case> {
    let other = ProviderErrorKind::Other;
    vec![
        Case {
            name: "a directory",
            prepare: |place| {
                std::fs::create_dir(place.path()).unwrap();
                Ok((place.url(), NOTHING))
            },
            kind: other,
            says: &["store.db' is a directory", "name a file in it"],
        },
        Case {
            name: "a missing parent",
            prepare: |place| {
                Ok((format!("sqlite:{}/sub/a.db", text(place.path().parent().unwrap())), NOTHING))
            },
            kind: other,
            says: &["/sub' does not exist", "create it"],
        },
        Case {
            name: "a parent that is a file",
            prepare: |place| {
                std::fs::write(place.path(), "").unwrap();
                Ok((format!("{}/a.db", place.url()), NOTHING))
            },
            kind: other,
            says: &["store.db' is not a directory"],
        },
        Case {
            name: "a missing file that must exist",
            prepare: |place| Ok((format!("{}?mode=rw", place.url()), NOTHING)),
            kind: other,
            says: &["store.db' does not exist", "mode=rwc"],
        },
        Case {
            name: "not a database",
            prepare: |place| {
                std::fs::write(place.path(), "these are notes and not a database. ".repeat(100)).unwrap();
                Ok((place.url(), NOTHING))
            },
            kind: ProviderErrorKind::Corrupt,
            says: &["store.db' is not a database", "name another file or restore a backup"],
        },
    ]
}

fn wrong_surroundings() -> Vec<Case> {
    let other = ProviderErrorKind::Other;
    vec![
        Case {
            name: "an immutable file",
            prepare: |place| {
                closed_store(place);
                Ok((place.url(), protect(&place.path())?))
            },
            kind: other,
            says: &["store.db' can be read but not written", "permissions", "immutable"],
        },
        Case {
            name: "a directory that cannot be written, with a store in it",
            prepare: |place| {
                closed_store(place);
                Ok((place.url(), protect(place.path().parent().unwrap())?))
            },
            kind: other,
            says: &["cannot be written", "-wal", "permissions"],
        },
        Case {
            name: "a directory that cannot be written, without a store in it",
            prepare: |place| Ok((place.url(), protect(place.path().parent().unwrap())?)),
            kind: other,
            says: &["cannot be written", "permissions"],
        },
        Case {
            name: "a log that is missing after a crash",
            prepare: |place| {
                crashed_without(place, "-wal", true);
                Ok((place.url(), NOTHING))
            },
            kind: other,
            says: &["store.db-wal' is missing", "-shm", "put the -wal back"],
        },
        Case {
            name: "a log that is missing and had everything in it",
            prepare: |place| {
                crashed_without(place, "-wal", false);
                std::fs::remove_file(format!("{}-shm", text(&place.path()))).unwrap();
                Ok((place.url(), NOTHING))
            },
            kind: other,
            says: &["store.db-wal' is missing", "put the -wal back"],
        },
        Case {
            name: "a full disk",
            prepare: |place| {
                let directory = text(place.path().parent().unwrap());
                let mount = ["-t", "tmpfs", "-o", "size=16k", "none", &directory].map(str::to_string);
                run("mount", &mount)?;
                Ok((place.url(), Guard(vec![("umount", vec![directory])])))
            },
            kind: ProviderErrorKind::Unavailable,
            says: &["is full", "free some space"],
        },
    ]
}

async fn refused(url: &str) -> ProviderError {
    SqliteProvider::new(url, Some(patient())).await.expect_err("the store is refused")
}

/// Less patience than by default: nobody else is about to finish anything.
fn patient() -> duroxide::providers::sqlite::SqliteOptions {
    duroxide::providers::sqlite::SqliteOptions {
        busy_timeout: std::time::Duration::from_millis(100),
        ..Default::default()
    }
}

#[tokio::test]
async fn every_failure_names_its_cause_and_what_to_do() {
    let mut wrong = Vec::new();
    for case in wrong_paths().into_iter().chain(wrong_surroundings()) {
        let place = Place::new();
        let (url, guard) = match (case.prepare)(&place) {
            Ok(prepared) => prepared,
            Err(reason) => {
                eprintln!("{}: not on this machine: {reason}", case.name);
                continue;
            }
        };
        let outcome = SqliteProvider::new(&url, Some(patient())).await.map(drop);
        drop(guard);
        let Err(error) = outcome else {
            wrong.push(format!("{}: the store opened", case.name));
            continue;
        };
        let text = error.to_string();
        if error.kind() != case.kind || !case.says.iter().all(|part| text.contains(part)) {
            wrong.push(format!("{}: {:?} {text}", case.name, error.kind()));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_store_that_was_told_of_its_missing_log_opens_once_the_rest_of_the_log_is_deleted() {
    let place = Place::new();
    crashed_without(&place, "-wal", true);
    assert!(refused(&place.url()).await.to_string().contains("-shm"));
    std::fs::remove_file(format!("{}-shm", text(&place.path()))).unwrap();
    drop(place.open().await);
}
