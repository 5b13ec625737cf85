//! What each noun does.
//!
//! | file | its verbs |
//! |---|---|
//! | `instance` | which file an instance's verb is in |
//! | `instance_list` | `list`, `count` |
//! | `instance_show` | `show`, `history`, `tree` |
//! | `instance_run` | `start`, `wait` |
//! | `instance_change` | `cancel`, `delete`, `redrive` |
//! | `event`, `kv`, `node`, `queue` | those of the same name |
//! | `health` | `check`, `repair` |
//! | `failures` | failed instances by error |
//! | `prune` | old executions |
//! | `replay` | recorded histories against this build |
//! | `store` | `info`, `migrate`, `backup`, `doctor` |
//! | `about` | `config`, `completions`, `man` |

pub(crate) mod about;
pub(crate) mod event;
pub(crate) mod failures;
pub(crate) mod health;
pub(crate) mod instance;
mod instance_change;
mod instance_list;
mod instance_run;
mod instance_show;
pub(crate) mod kv;
pub(crate) mod node;
pub(crate) mod prune;
pub(crate) mod queue;
pub(crate) mod replay;
pub(crate) mod store;
