//! Finding what is ready, and locking it.
//!
//! | module | what it does |
//! |---|---|
//! | `take` | fetches as they are asked for |
//! | `fetch_turn` | locking instances |
//! | `fetch_work` | locking work items |
//! | `sessions` | work items of sessions |
//! | `horizon` | where a look begins |
//! | `behind` | rows behind that |
//! | `route_turn` | instances that a node has handlers for |
//! | `route_work` | work items that it has handlers for |

pub(crate) mod behind;
pub(crate) mod fetch_turn;
pub(crate) mod fetch_work;
pub(crate) mod horizon;
pub(crate) mod route_turn;
pub(crate) mod route_work;
pub(crate) mod sessions;
pub(crate) mod take;
