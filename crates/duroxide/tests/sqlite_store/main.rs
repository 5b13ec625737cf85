//! The SQLite store beyond the contract that all stores share: files, commits, threads, other processes.
#![cfg(feature = "sqlite")]

#[cfg(test)]
mod backup;
#[cfg(test)]
mod caller;
#[cfg(test)]
mod causes;
#[cfg(test)]
mod clock_steps;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod decoding;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod full_inboxes;
#[cfg(test)]
mod group_commit;
#[cfg(test)]
mod health;
#[cfg(test)]
mod listing;
#[cfg(test)]
mod lost_file;
#[cfg(test)]
mod migrations;
#[cfg(test)]
mod open_errors;
#[cfg(test)]
mod open_modes;
#[cfg(test)]
mod opening;
mod pinned_versions;
#[cfg(test)]
mod remembered;
#[cfg(test)]
mod served_together;
#[cfg(test)]
mod sharing;
#[cfg(test)]
mod turns;
#[cfg(test)]
mod waiting;
#[cfg(test)]
mod work;
