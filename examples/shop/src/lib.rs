//! A sample application: an HTTP service whose orders are durable workflows.
//!
//! | file | its job |
//! |---|---|
//! | `model` | what the shop sells, and what can go wrong |
//! | `world` | the services that it uses, in memory |
//! | `activities` | what touches the world |
//! | `order` | the workflow |
//! | `service` | the HTTP routes |

pub mod activities;
pub mod model;
pub mod order;
pub mod service;
pub mod world;
