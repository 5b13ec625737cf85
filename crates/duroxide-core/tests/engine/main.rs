//! The replay engine, driven by scripts: messages in, events and actions out.

mod activities;
mod build;
mod children;
mod combinators;
mod custom_status;
mod deadlines;
mod deterministic;
mod driver;
mod endings;
mod events;
mod garbage;
mod health;
mod kv;
mod limits;
mod mismatches;
mod next_execution;
mod programs;
mod queues;
mod redrive;
mod retried_calls;
mod retries;
mod scale;
mod timers;
mod typed_calls;
mod typed_errors;
mod unread;
