//! Every path, signature, field, variant, default, constant and text that programs rely on.
//!
//! `list.txt` is the whole API, one item a line. Each section writes its items down in the notation of `notation`,
//! which has the compiler check them; a signature that changed does not compile. The sections together must give
//! exactly the lines of the list: an item without a check fails, and so does a check without an item.
#![cfg(all(feature = "sqlite", feature = "macros", feature = "provider-test", feature = "testing"))]

mod activity_context;
mod additions;
mod attributes;
mod client;
mod facade;
mod list;
mod modules;
mod names;
mod notation;
mod orchestration_context;
mod plain_provider;
mod programs;
mod provider;
mod registries;
mod rules;
mod runtime;
mod settled;
mod stored;
mod test_kit;
mod typed;
mod types;
