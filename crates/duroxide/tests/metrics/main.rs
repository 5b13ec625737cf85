//! Metrics: what is recorded, what the list of them says, and what the document says.
#![cfg(feature = "sqlite")]

#[path = "../common/mod.rs"]
#[expect(dead_code, unused_imports, reason = "other tests use the rest of it")]
mod common;
#[path = "../deployment/pinned.rs"]
#[expect(dead_code, reason = "other tests use the rest of it")]
mod pinned;

mod document;
mod every_metric;
mod names;
mod provoke;
#[path = "../faults/recorder.rs"]
#[expect(dead_code, reason = "other tests use the rest of it")]
mod recorder;
mod seen;
