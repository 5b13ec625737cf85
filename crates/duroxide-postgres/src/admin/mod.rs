//! What clients and operators read and remove.
//!
//! | module | what it does |
//! |---|---|
//! | `instances` | instances, executions, metrics |
//! | `listing` | pages of instances |
//! | `delete` | deleting instances |
//! | `prune` | deleting old executions |
//! | `status` | status, custom status, KV |
//! | `history` | histories |
//! | `bounces` | why turns and work items were given back |
//! | `set_aside` | rows that did not decode |
//! | `filtered_out` | what a filter leaves out |

pub(crate) mod bounces;
pub(crate) mod delete;
pub(crate) mod filtered_out;
pub(crate) mod history;
pub(crate) mod instances;
pub(crate) mod listing;
pub(crate) mod prune;
pub(crate) mod set_aside;
pub(crate) mod status;
