//! What the store does beside the calls: dead rows, steps of the clock, nodes, and work that nobody can do.
//!
//! | module | what it does |
//! |---|---|
//! | `vacuum` | clearing away what the queues leave behind |
//! | `clock_steps` | what was stored while the clock was ahead |
//! | `nodes` | who works on the store |
//! | `sweep` | work that no node can do |
//! | `sweep_take` | locking it |
//! | `health` | what is overdue or missing |

pub(crate) mod clock_steps;
pub(crate) mod health;
pub(crate) mod nodes;
pub(crate) mod sweep;
pub(crate) mod sweep_take;
pub(crate) mod vacuum;
