//! Damaged texts, made from the golden files.

use std::path::Path;

use proptest::prelude::*;

/// What decoders stumble over.
const WORDS: [&str; 18] = [
    "null",
    "true",
    "-1",
    "0",
    "18446744073709551615",
    "18446744073709551616",
    "1e400",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "{}",
    "[]",
    "[[[[[[[[",
    "\"type\":\"Unknown\"",
    ",\"event_id\":1",
    "\u{1f980}",
    "\0",
    "\\",
];

/// The golden files.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for kind in ["events", "work_items", "errors"] {
        files.extend(texts(kind));
    }
    files
}

fn texts(kind: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1").join(kind);
    let mut paths: Vec<_> = std::fs::read_dir(&directory)
        .expect("the golden files are there")
        .map(|entry| entry.expect("the directory can be read").path())
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("the file can be read")).collect()
}

/// A change of a text. Places are taken modulo its length.
#[derive(Debug, Clone)]
enum Change {
    Set(usize, u8),
    Remove(usize, usize),
    Double(usize, usize),
    Insert(usize, usize),
    Splice(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let place = 0..100_000usize;
    prop_oneof![
        (place.clone(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (place.clone(), 1..40usize).prop_map(|(at, length)| Change::Remove(at, length)),
        (place.clone(), 1..40usize).prop_map(|(at, length)| Change::Double(at, length)),
        (place.clone(), 0..WORDS.len()).prop_map(|(at, word)| Change::Insert(at, word)),
        (place.clone(), place).prop_map(|(at, other)| Change::Splice(at, other)),
    ]
}

fn apply(text: &mut Vec<u8>, change: &Change, corpus: &[Vec<u8>]) {
    let within = |at: usize, length: usize| if length == 0 { 0 } else { at % length };
    let size = text.len();
    match change {
        Change::Set(at, byte) => {
            if let Some(found) = text.get_mut(within(*at, size)) {
                *found = *byte;
            }
        }
        Change::Remove(at, length) => {
            let at = within(*at, size);
            text.drain(at..(at + length).min(size));
        }
        Change::Double(at, length) => {
            let at = within(*at, size);
            let part = text[at..(at + length).min(size)].to_vec();
            text.splice(at..at, part);
        }
        Change::Insert(at, word) => {
            let at = within(*at, size);
            text.splice(at..at, WORDS[*word].bytes());
        }
        Change::Splice(at, other) => {
            let other = &corpus[within(*other, corpus.len())];
            text.truncate(within(*at, size));
            text.extend_from_slice(&other[within(*at, other.len())..]);
        }
    }
}

/// One of the texts, with up to six changes.
pub(crate) fn damaged(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (0..corpus.len(), proptest::collection::vec(change(), 0..6)).prop_map(move |(index, changes)| {
        let mut text = corpus[index].clone();
        for change in &changes {
            apply(&mut text, change, &corpus);
        }
        text
    })
}

/// A start, and behind it events with at most one change each, so that most of them decode.
pub(crate) fn damaged_history() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let events = texts("events");
    let started = events
        .iter()
        .find(|text| String::from_utf8_lossy(text).contains("\"OrchestrationStarted\""))
        .expect("there is a start")
        .clone();
    let one =
        (0..events.len(), proptest::option::weighted(0.3, change())).prop_map(move |(index, change)| {
            let mut text = events[index].clone();
            if let Some(change) = &change {
                apply(&mut text, change, &events);
            }
            text
        });
    proptest::collection::vec(one, 0..24).prop_map(move |mut rest| {
        rest.insert(0, started.clone());
        rest
    })
}
