//! Work that no node can do.

use std::collections::BTreeMap;
use std::time::Duration;

use duroxide_core::{
    EndingRule, Need, NodeRecord, RoutingKey, UnprocessableWork, missing_capability, sort_findings,
};

use super::nodes::from_ms;
use super::rows::{InstanceRow, Ms, WorkRow, to_ms};
use super::state::State;
use crate::clock::millis;
use crate::fetch::{one_turn, one_work};
use crate::room::ByteRoom;
use crate::{FetchedTurn, FetchedWork, SweepRequest, TagFilter};

impl State {
    pub(super) fn find_unprocessable(&self, now: Ms) -> Vec<UnprocessableWork> {
        let turns = self.instances.values().filter_map(|row| Some((turn_need(row)?, waits_since(row, now)?)));
        let work = self.work.values().filter_map(|row| Some((work_need(row), work_waits_since(row, now)?)));
        let mut waiting: BTreeMap<Need, (u64, Ms)> = BTreeMap::new();
        for (need, since) in turns.chain(work) {
            let (count, oldest) = waiting.entry(need).or_insert((0, since));
            *count += 1;
            *oldest = since.min(*oldest);
        }
        let nodes = self.list_nodes(now);
        let mut found: Vec<UnprocessableWork> = waiting
            .into_iter()
            .filter_map(|(what, (count, since))| {
                let missing = missing_capability(&nodes, from_ms(now), &what)?;
                let oldest_age = Duration::from_millis(from_ms(now.saturating_sub(since)));
                Some(UnprocessableWork { what, count, oldest_age, missing })
            })
            .collect();
        sort_findings(&mut found);
        found
    }

    pub(super) fn fetch_unprocessable_turns(&mut self, now: Ms, request: SweepRequest) -> Vec<FetchedTurn> {
        let nodes: Vec<NodeRecord> = self.list_nodes(now);
        let Some(rule) = EndingRule::new(&nodes, from_ms(now), millis(request.end_after)) else {
            return Vec::new();
        };
        let cutoff = to_ms(rule.waiting_since_ms());
        let mut doomed: Vec<(Ms, u64, String)> = self
            .instances
            .iter()
            .filter(|(_, row)| waits_since(row, now).is_some_and(|since| since <= cutoff))
            .filter(|(_, row)| turn_need(row).is_some_and(|need| rule.is_out_of_reach(&need)))
            .filter_map(|(id, row)| Some((row.entry()?.ready_at, row.seq, id.clone())))
            .filter(|(ready_at, _, _)| *ready_at <= now)
            .collect();
        doomed.sort();
        doomed.truncate(request.max_items.max(1));
        let like = one_turn(request.lock_timeout, Duration::ZERO, None);
        let mut room = ByteRoom::for_messages();
        let mut turns = Vec::new();
        for (_, _, id) in &doomed {
            if !room.fits(self.first_message_bytes(now, id)) {
                break;
            }
            turns.extend(self.take_turn(now, id, &like, &mut room));
        }
        turns
    }

    pub(super) fn fetch_unprocessable_work(&mut self, now: Ms, request: SweepRequest) -> Vec<FetchedWork> {
        let nodes: Vec<NodeRecord> = self.list_nodes(now);
        let Some(rule) = EndingRule::new(&nodes, from_ms(now), millis(request.end_after)) else {
            return Vec::new();
        };
        let cutoff = to_ms(rule.waiting_since_ms());
        let mut doomed: Vec<(Ms, u64)> = self
            .work
            .iter()
            .filter(|(_, row)| row.visible_at <= cutoff)
            .filter(|(_, row)| rule.is_out_of_reach(&work_need(row)))
            .map(|(seq, row)| (row.entry().ready_at, *seq))
            .filter(|(ready_at, _)| *ready_at <= now)
            .collect();
        doomed.sort_unstable();
        doomed.truncate(request.max_items.max(1));
        let like = one_work(request.lock_timeout, Duration::ZERO, None, &TagFilter::Any);
        let mut room = ByteRoom::for_work();
        let mut work = Vec::new();
        for (_, seq) in doomed {
            let bytes = self.work_bytes(seq);
            if !room.fits(bytes) {
                break;
            }
            room.take(bytes);
            work.extend(self.take_work(now, seq, &like));
        }
        work
    }
}

fn turn_need(row: &InstanceRow) -> Option<Need> {
    let key = row.entry()?.key;
    Some(Need::Turn(RoutingKey { pinned: key.pinned, route: (*key.route).clone() }))
}

/// Since when an instance waits for a turn, if it does.
fn waits_since(row: &InstanceRow, now: Ms) -> Option<Ms> {
    let (first, _) = row.inbox().first_key_value()?;
    let locked = row.lock.as_ref().is_some_and(|lock| now < lock.until);
    (!locked && first.visible_at <= now).then(|| first.visible_at.max(row.updated_at))
}

fn work_need(row: &WorkRow) -> Need {
    Need::Activity { name: row.route.name.clone(), tag: row.route.tag.clone() }
}

/// Since when an activity waits for a worker, if it does.
fn work_waits_since(row: &WorkRow, now: Ms) -> Option<Ms> {
    let locked = row.lock.as_ref().is_some_and(|lock| now < lock.until);
    (!locked).then_some(row.queued_at)
}
