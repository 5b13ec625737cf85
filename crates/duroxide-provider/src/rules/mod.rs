//! The rules of the contract, for stores that keep rows: pure and synchronous, without SQL and without a clock.
//!
//! A store carries out a group of calls in one transaction:
//!
//! 1. it asks each call what it [wants](Call::wants), loads those rows, and tells [`Rows`] of them;
//! 2. it [applies](Rows::apply) the calls one after another; a call that answers with a [`Need`] is applied again once
//!    the rows know that, and one that fails has changed nothing;
//! 3. it writes the rows that changed and the [`Changes`] of the whole group, each row once;
//! 4. after the commit it acts on the [`Effects`].
//!
//! What holds at every moment: a call sees what the calls before it did; nothing is written that a failed call did; two
//! rows of one instance are changed by one call together or not at all. Finding work, listings, sweeps and health look
//! at many rows and stay statements of each store. The [store in memory](crate::memory) does not use this module: it is
//! what the stores that do are compared with.
//!
//! | module | what it does |
//! |---|---|
//! | `call` | the calls, what they want, and applying them |
//! | `rows` | the rows that are known, and undoing a call that fails |
//! | `wanted`, `known` | what a call has to know, and what it was told |
//! | `changes`, `effects` | what has to be written, and what follows the commit |
//! | `instance_row`, `execution_row`, `work_row` | the rows |
//! | `encoded` | messages, work items and events in their stored form |
//! | `messages`, `late` | how messages reach an inbox; those that come too late |
//! | `turn_commit` | the commit of a turn |
//! | `release` | the other ends of an attempt at a turn |
//! | `work` | work items and the ends of attempts at them |
//! | `serve` | giving what a group made ready to fetches that wait |
//! | `outcome` | what the sender of an item is told |
//! | `admin` | appending, redriving, repairing |
//! | `token`, `values`, `fault` | lock tokens; values of columns; why a call fails |

mod admin;
mod call;
mod changes;
mod effects;
mod encoded;
mod execution_row;
mod fault;
mod instance_row;
mod known;
mod late;
mod messages;
mod outcome;
mod release;
mod rows;
mod serve;
mod token;
mod turn_commit;
pub mod values;
mod wanted;
mod work;
mod work_row;

pub use admin::{EncodedRedrive, EncodedRepair};
pub use call::{Answer, Call, Wish};
pub use changes::{
    AdmittedEarly, AsideMessage, Changes, EarlyMessage, HistoryRow, InboxRow, KeptItem, KeptMessage,
    KvChanges, NewWork, PulledBack, SessionUse, WorkChange, WorkLock,
};
pub use effects::Effects;
pub use encoded::{EncodedEvents, EncodedItem, check_completion, check_message, check_work};
pub use execution_row::{ExecutionRow, Pinned};
pub use fault::Fault;
pub use instance_row::{CANCELLED_WHILE_LOCKED, InstanceRow, Pending, TurnLock};
pub use rows::{NewKey, Rows};
pub use serve::{ServedTurn, ServedWork, expires_at};
pub use token::{Token, UNLOCKED, expired_lock, nonce, nonces};
pub use turn_commit::TurnCommit;
pub use values::{Ms, NEVER, NOT_PINNED};
pub use wanted::{Early, FirstInputRow, FirstMessage, KeptRow, Need, Stop, StoredMessage, Wanted};
pub use work_row::{Place, WorkRow};
