//! Who waits for which event, and which events wait for somebody.
//!
//! Used twice: for positional events and for queues. Both give the oldest event of a name to the oldest live
//! wait of that name; they differ only in what the history calls them.

use std::collections::{BTreeMap, BTreeSet};

/// Waits and unread events by name.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    channels: BTreeMap<String, Channel>,
}

#[derive(Debug, Default)]
struct Channel {
    /// Live waits by the event id of their subscription, which is their order.
    waits: BTreeSet<u64>,
    /// Unread events by their place in the order of arrival.
    unread: BTreeMap<u64, String>,
}

/// An event that found its wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) wait: u64,
    pub(super) arrival: u64,
    pub(super) data: String,
}

/// An event that nobody has read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unread {
    pub(super) arrival: u64,
    pub(super) name: String,
    pub(super) data: String,
}

impl Subscriptions {
    /// A new wait; gets the oldest unread event at once if there is one.
    pub(super) fn subscribe(&mut self, name: &str, wait: u64) -> Option<Delivery> {
        let channel = self.channels.entry(name.to_string()).or_default();
        match channel.unread.pop_first() {
            Some((arrival, data)) => Some(Delivery { wait, arrival, data }),
            None => {
                channel.waits.insert(wait);
                None
            }
        }
    }

    /// The wait that the next event of this name will go to.
    pub(super) fn next_wait(&self, name: &str) -> Option<u64> {
        self.channels.get(name)?.waits.first().copied()
    }

    /// An event arrived, or was given back by a wait that was dropped without reading it.
    pub(super) fn arrive(&mut self, name: &str, arrival: u64, data: String) -> Option<Delivery> {
        let channel = self.channels.entry(name.to_string()).or_default();
        match channel.waits.pop_first() {
            Some(wait) => Some(Delivery { wait, arrival, data }),
            None => {
                channel.unread.insert(arrival, data);
                None
            }
        }
    }

    /// A wait was dropped: its place goes to the next one.
    pub(super) fn unsubscribe(&mut self, name: &str, wait: u64) {
        if let Some(channel) = self.channels.get_mut(name) {
            channel.waits.remove(&wait);
        }
    }

    /// Everything unread, in the order of arrival.
    pub(super) fn drain_unread(&mut self) -> Vec<Unread> {
        let mut unread: Vec<Unread> = std::mem::take(&mut self.channels)
            .into_iter()
            .flat_map(|(name, channel)| {
                channel.unread.into_iter().map(move |(arrival, data)| Unread {
                    arrival,
                    name: name.clone(),
                    data,
                })
            })
            .collect();
        unread.sort_by_key(|event| event.arrival);
        unread
    }
}
