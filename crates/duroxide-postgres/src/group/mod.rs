//! Group commit: the task that carries calls out, and all who wait for it.
//!
//! | module | what it does |
//! |---|---|
//! | `carrier` | the task |
//! | `run_group` | a group of calls, from its begin to its answers |
//! | `attempt` | one attempt at it |
//! | `call` | the calls that wait |
//! | `joined` | calls in a transaction that somebody else began |
//! | `parked` | fetches that wait |
//! | `serve` | fetches that need not look |
//! | `memory` | rows that need not be read again |
//! | `blocked` | calls whose rows another transaction has locked |
//! | `row_probe` | which rows those are |
//! | `news` | what other processes are told |
//! | `listener` | what they tell |
//! | `endings` | who waits for the end of an instance |
//! | `wait` | waiting for an instance |

pub(crate) mod attempt;
pub(crate) mod blocked;
pub(crate) mod call;
pub(crate) mod carrier;
pub(crate) mod endings;
pub(crate) mod joined;
pub(crate) mod listener;
pub(crate) mod memory;
pub(crate) mod news;
pub(crate) mod parked;
pub(crate) mod row_probe;
pub(crate) mod run_group;
pub(crate) mod serve;
pub(crate) mod wait;
