//! Faults that systems of this kind really had: each test is named after the rule that forbids one.

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "other test files use the rest")]
mod common;

#[path = "../deployment/log.rs"]
mod log;

mod activities;
mod answers;
mod any_store;
mod big_tree;
mod capacity;
mod deadlines;
mod deployment;
mod dropped;
mod error_texts;
mod forgiveness;
mod hanging;
mod injected;
mod management;
mod many;
mod many_sessions;
mod metrics;
mod one_rule;
mod outages;
mod recorder;
mod recovery;
mod redrive;
mod refused;
mod session_capacity;
mod session_programs;
mod sessions;
mod state;
mod stuck_work;
mod suspects;
mod traces;
