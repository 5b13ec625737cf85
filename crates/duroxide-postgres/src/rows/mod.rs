//! Access to rows: what calls want is loaded, and what the rules changed is written.
//!
//! | module | what it does |
//! |---|---|
//! | `working_set` | loading the rows of a transaction |
//! | `needs` | what rules ask for while they are applied |
//! | `instance_row` | reading an instance |
//! | `execution_row` | reading an execution |
//! | `work` | reading work items |
//! | `flush` | writing all that changed |
//! | `write_group` | what almost every group changes, by one statement |
//! | `write_one` | the same when it is about one instance |
//! | `one_statement` | the texts of those statements |
//! | `write_pieces` | many rows by several statements |

pub(crate) mod execution_row;
pub(crate) mod flush;
pub(crate) mod instance_row;
pub(crate) mod needs;
pub(crate) mod one_statement;
pub(crate) mod work;
pub(crate) mod working_set;
pub(crate) mod write_group;
pub(crate) mod write_one;
pub(crate) mod write_pieces;
