//! A store whose calls fail as told, in virtual time, for tests of the runtime.

mod world;

pub(crate) use duroxide::testing::{Fault, FaultProvider as Faulty};
pub(crate) use world::{World, activities, options, orchestrations};
