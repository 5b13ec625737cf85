//! The nodes that work on the store, and the work that none of them can do.

use std::collections::BTreeMap;
use std::time::Duration;

use duroxide_core::{
    EndingRule, Need, NodeInfo, NodeRecord, RoutingKey, UnprocessableWork, check_node_id, missing_capability,
    sort_findings,
};

use super::tables::{Instance, Tables, Work};
use crate::clock::millis;
use crate::fetch::{one_turn, one_work};
use crate::room::ByteRoom;
use crate::rules::values::{Ms, from_column, to_column};
use crate::{FetchedTurn, FetchedWork, ProviderError, ProviderErrorKind, SweepRequest, TagFilter};

impl Tables {
    pub(super) fn heartbeat_node(&mut self, now: Ms, node: &NodeInfo) -> Result<(), ProviderError> {
        node.check().map_err(|cause| invalid("heartbeat_node", cause))?;
        let now = from_column(now);
        self.nodes.retain(|_, record| !record.is_forgotten(now));
        let record = NodeRecord::after_heartbeat(self.nodes.get(&node.node_id), node, now);
        self.nodes.insert(node.node_id.clone(), record);
        Ok(())
    }

    pub(super) fn node_left(&mut self, now: Ms, node_id: &str) -> Result<(), ProviderError> {
        check_node_id(node_id).map_err(|cause| invalid("node_left", cause))?;
        if let Some(record) = self.nodes.get_mut(node_id) {
            record.left_at_ms.get_or_insert(from_column(now));
        }
        Ok(())
    }

    pub(super) fn list_nodes(&self, now: Ms) -> Vec<NodeRecord> {
        self.nodes.values().filter(|record| !record.is_forgotten(from_column(now))).cloned().collect()
    }

    pub(super) fn find_unprocessable(&self, now: Ms) -> Vec<UnprocessableWork> {
        let turns = self.instances.values().filter_map(|one| Some((one.need()?, one.waits_since(now)?)));
        let work = self.work.values().filter_map(|one| Some((one.need(), one.waits_since(now)?)));
        let mut waiting: BTreeMap<Need, (u64, Ms)> = BTreeMap::new();
        for (need, since) in turns.chain(work) {
            let (count, oldest) = waiting.entry(need).or_insert((0, since));
            *count += 1;
            *oldest = since.min(*oldest);
        }
        let nodes = self.list_nodes(now);
        let found = waiting.into_iter().filter_map(|(what, (count, since))| {
            let missing = missing_capability(&nodes, from_column(now), &what)?;
            let oldest_age = Duration::from_millis(from_column(now.saturating_sub(since)));
            Some(UnprocessableWork { what, count, oldest_age, missing })
        });
        let mut found: Vec<UnprocessableWork> = found.collect();
        sort_findings(&mut found);
        found
    }

    pub(super) fn fetch_unprocessable_turns(&mut self, now: Ms, request: SweepRequest) -> Vec<FetchedTurn> {
        let nodes = self.list_nodes(now);
        let rule = EndingRule::new(&nodes, from_column(now), millis(request.end_after));
        let Some(rule) = rule else { return Vec::new() };
        let cutoff = to_column(rule.waiting_since_ms());
        let doomed = self.instances.values().filter(|instance| {
            instance.waits_since(now).is_some_and(|since| since <= cutoff)
                && instance.need().is_some_and(|need| rule.is_out_of_reach(&need))
        });
        let doomed = doomed.filter_map(|instance| Some((instance.row.ready_at?, instance.row.key)));
        let mut doomed: Vec<(Ms, i64)> = doomed.filter(|(ready_at, _)| *ready_at <= now).collect();
        doomed.sort_unstable();
        doomed.truncate(request.max_items.max(1));
        let like = one_turn(request.lock_timeout, Duration::ZERO, None);
        let mut room = ByteRoom::for_messages();
        let mut turns = Vec::new();
        for (_, key) in doomed {
            let bytes = self.instances.get(&key).map_or(0, |instance| instance.first_message_bytes(now));
            if !room.fits(bytes) {
                break;
            }
            turns.extend(self.take_turn(now, key, &like, &mut room));
        }
        turns
    }

    pub(super) fn fetch_unprocessable_work(&mut self, now: Ms, request: SweepRequest) -> Vec<FetchedWork> {
        let nodes = self.list_nodes(now);
        let rule = EndingRule::new(&nodes, from_column(now), millis(request.end_after));
        let Some(rule) = rule else { return Vec::new() };
        let cutoff = to_column(rule.waiting_since_ms());
        let doomed = self.work.values().filter(|work| {
            work.row.visible_at <= cutoff && work.row.ready_at <= now && rule.is_out_of_reach(&work.need())
        });
        let mut doomed: Vec<(Ms, i64)> = doomed.map(|work| (work.row.ready_at, work.row.id)).collect();
        doomed.sort_unstable();
        doomed.truncate(request.max_items.max(1));
        let like = one_work(request.lock_timeout, Duration::ZERO, None, &TagFilter::Any);
        let mut room = ByteRoom::for_work();
        let mut items = Vec::new();
        for (_, id) in doomed {
            let bytes = self.work_bytes(id);
            if !room.fits(bytes) {
                break;
            }
            room.take(bytes);
            items.extend(self.take_work(now, id, &like));
        }
        items
    }
}

impl Instance {
    fn need(&self) -> Option<Need> {
        self.row.ready_at?;
        Some(Need::Turn(RoutingKey { pinned: self.pinned(), route: self.needed_route() }))
    }

    /// Since when it waits for a turn, if it does.
    fn waits_since(&self, now: Ms) -> Option<Ms> {
        let ((first, _), _) = self.inbox.first_key_value()?;
        let locked = self.row.lock.is_some() && self.row.ready_at.is_some_and(|until| now < until);
        (!locked && *first <= now).then(|| self.row.updated_at.max(*first))
    }
}

impl Work {
    fn need(&self) -> Need {
        let tag = (!self.row.place.tag.is_empty()).then(|| self.row.place.tag.clone());
        Need::Activity { name: self.row.place.name.clone(), tag }
    }

    /// Since when it waits for a worker, if it does.
    fn waits_since(&self, now: Ms) -> Option<Ms> {
        let locked = self.row.nonce.is_some() && now < self.row.ready_at;
        (!locked).then_some(self.queued_at)
    }
}

fn invalid(operation: &str, cause: String) -> ProviderError {
    ProviderError::of_kind(ProviderErrorKind::Invalid, operation, cause)
}
