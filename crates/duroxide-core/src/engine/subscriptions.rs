//! Who waits for which event, and which events wait for somebody.
//!
//! Used twice: for positional events and for queues. Both give the oldest event of a name to the oldest live
//! wait of that name; they differ only in what the history calls them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::slot::{Resolution, Slot};

/// Waits and unread events by name.
#[derive(Default)]
pub(super) struct Subscriptions {
    channels: BTreeMap<String, Channel>,
    /// The slots of waits that got their event and may not have looked at it yet.
    delivered: Vec<Arc<Slot>>,
    /// How many of them to gather before those that were looked at are sorted out.
    sort_out_at: usize,
    /// Unread events of all names.
    unread: u64,
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
            Some((arrival, data)) => {
                self.unread -= 1;
                Some(Delivery { wait, arrival, data })
            }
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
                self.unread += 1;
                None
            }
        }
    }

    /// How many events no wait has got.
    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    /// A wait was dropped: its place goes to the next one.
    pub(super) fn unsubscribe(&mut self, name: &str, wait: u64) {
        if let Some(channel) = self.channels.get_mut(name) {
            channel.waits.remove(&wait);
        }
    }

    /// Notes the slot that an event goes to, so that the event is not lost with a program that ends unread.
    pub(super) fn delivered(&mut self, slot: Arc<Slot>) {
        if self.delivered.len() >= self.sort_out_at {
            self.delivered.retain(|slot| slot.is_ready());
            // Doubling keeps the cost per event constant.
            self.sort_out_at = (2 * self.delivered.len()).max(64);
        }
        self.delivered.push(slot);
    }

    /// Everything unread, in the order of arrival: also what a wait got and the program never looked at.
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
        unread.extend(self.delivered.drain(..).filter_map(|slot| match slot.take_back() {
            Some(Resolution { value: Ok(data), arrival }) => {
                Some(Unread { arrival, name: slot.subject(), data })
            }
            Some(Resolution { value: Err(_), .. }) | None => None,
        }));
        unread.sort_by_key(|event| event.arrival);
        unread
    }
}
