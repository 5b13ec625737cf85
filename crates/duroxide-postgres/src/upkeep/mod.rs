//! What the store does beside the calls: dead rows, nodes, and work that nobody can do.
//!
//! | module | what it does |
//! |---|---|
//! | `vacuum` | clearing away what the queues leave behind |
//! | `nodes` | who works on the store |
//! | `sweep` | work that no node can do |
//! | `sweep_take` | locking it |
//! | `health` | what is overdue or missing |

pub(crate) mod health;
pub(crate) mod nodes;
pub(crate) mod sweep;
pub(crate) mod sweep_take;
pub(crate) mod vacuum;
