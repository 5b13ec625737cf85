//! What work needs, what nodes can do, and when work that nobody can do may be ended.

use std::collections::BTreeSet;

use duroxide_core::{
    AcceptedTags, BeganAs, CapabilityRouting, DispatcherCapabilityFilter, EndingRule, HandlerSet,
    HandlerVersions, MissingCapability, Need, NodeInfo, NodeRecord, Route, RoutingKey, SemverRange, WorkItem,
    limits, may_fetch, missing_capability, pack_version, route_after_turn,
};
use semver::Version;

const HEARTBEAT_MS: u64 = 1_000;

fn version(text: &str) -> Version {
    Version::parse(text).expect("a version of the tests is valid")
}

/// A set with one orchestration; the last version is the one that a start without one gets.
fn set(name: &str, versions: &[&str]) -> HandlerSet {
    let versions: BTreeSet<Version> = versions.iter().map(|text| version(text)).collect();
    let unversioned = versions.last().cloned();
    HandlerSet { orchestrations: [(name.to_string(), HandlerVersions { versions, unversioned })].into() }
}

fn info(node_id: &str) -> NodeInfo {
    NodeInfo {
        node_id: node_id.to_string(),
        start_id: "s".to_string(),
        build_version: version("1.0.0"),
        replays: vec![SemverRange::new(version("1.0.0"), version("1.9.0"))],
        orchestrations: set("Flow", &["1.0.0", "2.0.0"]),
        activities: ["Act".to_string()].into(),
        tags: AcceptedTags::These { untagged: true, tags: ["gpu".to_string()].into() },
        routing: CapabilityRouting::Handlers,
        heartbeat_ms: HEARTBEAT_MS,
    }
}

fn seen(info: NodeInfo, joined_at_ms: u64, last_seen_ms: u64) -> NodeRecord {
    let joined = NodeRecord::after_heartbeat(None, &info, joined_at_ms);
    NodeRecord { last_seen_ms, ..joined }
}

fn turn(pinned: Option<&str>, route: Route) -> Need {
    Need::Turn(RoutingKey { pinned: pinned.map(|text| pack_version(&version(text))), route })
}

fn activity(name: &str, tag: Option<&str>) -> Need {
    Need::Activity { name: name.to_string(), tag: tag.map(str::to_string) }
}

#[test]
fn a_route_is_needed_exactly_or_left_to_the_policy() {
    let handlers = set("Flow", &["1.0.0", "2.0.0"]);
    for (route, has) in [
        (Route::new("Flow", None), true),
        (Route::new("Flow", Some("1.0.0")), true),
        (Route::new("Flow", Some("3.0.0")), false),
        (Route::new("Flow", Some("not a version")), false),
        (Route::new("Other", None), false),
        (Route::AnyNode, true),
    ] {
        assert_eq!(handlers.has(&route), has, "{route:?}");
    }
    let mut undecided = handlers;
    undecided.orchestrations.get_mut("Flow").expect("there").unversioned = None;
    assert!(!undecided.has(&Route::new("Flow", None)) && undecided.has(&Route::new("Flow", Some("2.0.0"))));
}

#[test]
fn a_handler_is_found_by_exactly_the_text_of_its_version() {
    let largest = format!("{0}.{0}.{0}", u64::MAX);
    let texts =
        ["1.0.0", "1.0.1", "1.10.0", "10.0.0", "0.0.0", "1.0.0-rc.1", "1.0.0-rc.2", "1.0.0+linux", &largest];
    let not_versions =
        ["", "1", "1.0", "1.0.0.", "1.0.0.0", "01.0.0", "1.00.0", " 1.0.0", "1.0.0-", "a.b.c", "1..0"];
    for own in texts {
        let handlers = set("Order", &[own]);
        for asked in texts.into_iter().chain(not_versions) {
            let route = Route::Exact { name: "Order".to_string(), version: asked.to_string() };
            let is_own = Version::parse(asked).is_ok_and(|asked| asked == version(own));
            assert_eq!(handlers.has(&route), is_own, "{asked} with a handler of {own}");
        }
    }
}

#[test]
fn the_columns_of_a_route_give_it_back() {
    for route in [Route::AnyNode, Route::new("Flow", None), Route::new("Flow", Some("1.0.0-a+b"))] {
        let (name, version) = route.columns();
        assert_eq!(Route::new(name, Some(version)), route);
    }
}

#[test]
fn a_fetch_needs_the_replay_version_and_the_handler() {
    let filter = DispatcherCapabilityFilter {
        supported_duroxide_versions: vec![SemverRange::new(version("1.0.0"), version("1.5.0"))],
    };
    let handlers = set("Flow", &["1.0.0"]);
    let key = |pinned: Option<&str>, name: &str| RoutingKey {
        pinned: pinned.map(|text| pack_version(&version(text))),
        route: Route::new(name, Some("1.0.0")),
    };
    assert!(may_fetch(Some(&filter), Some(&handlers), &key(Some("1.2.0"), "Flow")));
    assert!(may_fetch(Some(&filter), Some(&handlers), &key(None, "Flow")));
    assert!(!may_fetch(Some(&filter), Some(&handlers), &key(Some("1.6.0"), "Flow")));
    assert!(!may_fetch(Some(&filter), Some(&handlers), &key(Some("1.2.0"), "Other")));
    assert!(may_fetch(Some(&filter), None, &key(Some("1.2.0"), "Other")));
    assert!(may_fetch(None, Some(&handlers), &key(Some("9.0.0"), "Flow")));
}

#[test]
fn a_turn_changes_the_route_when_it_begins_or_continues_as_new() {
    let next = |instance: &str, version: Option<&str>| WorkItem::ContinueAsNew {
        instance: instance.to_string(),
        orchestration: "Next".to_string(),
        input: String::new(),
        version: version.map(str::to_string),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: Vec::new(),
        initial_custom_status: None,
    };
    let began = Some(BeganAs { name: "Flow", version: "1.0.0" });
    let of_other = [next("b", Some("9.0.0"))];
    assert_eq!(route_after_turn("a", None, false, []), None);
    assert_eq!(route_after_turn("a", began, false, []), Some(Route::new("Flow", Some("1.0.0"))));
    assert_eq!(route_after_turn("a", began, true, &of_other), Some(Route::new("Flow", Some("1.0.0"))));
    assert_eq!(route_after_turn("a", began, true, &[next("a", None)]), Some(Route::new("Next", None)));
    let asked = [next("a", Some("2.0.0"))];
    assert_eq!(route_after_turn("a", None, true, &asked), Some(Route::new("Next", Some("2.0.0"))));
    assert_eq!(route_after_turn("a", None, false, &asked), None, "a stray message changes nothing");
}

#[test]
fn a_node_lives_for_three_heartbeats_and_joins_anew_after_more() {
    let first = NodeRecord::after_heartbeat(None, &info("n"), 10_000);
    assert!(first.is_live(13_000) && !first.is_live(13_001));
    let again = |now| NodeRecord::after_heartbeat(Some(&first), &info("n"), now).joined_at_ms;
    assert_eq!((again(13_000), again(13_001)), (10_000, 13_001));
    let restarted = NodeInfo { start_id: "t".to_string(), ..info("n") };
    assert_eq!(NodeRecord::after_heartbeat(Some(&first), &restarted, 11_000).joined_at_ms, 11_000);
    let left = NodeRecord { left_at_ms: Some(10_500), ..first.clone() };
    assert!(!left.is_live(10_500));
    assert_eq!(NodeRecord::after_heartbeat(Some(&left), &info("n"), 11_000).joined_at_ms, 11_000);
    let day = limits::NODE_RETENTION_MS;
    assert!(!first.is_forgotten(10_000 + day) && first.is_forgotten(10_001 + day));
}

#[test]
fn a_row_of_a_node_reads_back_also_with_fields_of_later_builds() {
    let json = serde_json::to_value(info("n")).expect("it is plain data");
    let mut later = json.clone();
    later.as_object_mut().expect("an object").insert("later".to_string(), true.into());
    assert_eq!(serde_json::from_value::<NodeInfo>(later).expect("reads"), info("n"));
}

#[test]
fn what_is_missing_is_named() {
    let nodes = [seen(info("n"), 0, 10_000)];
    let exact = |text: &str| Route::new("Flow", Some(text));
    for (what, missing) in [
        (turn(Some("1.0.0"), exact("1.0.0")), None),
        (turn(None, Route::AnyNode), None),
        (turn(Some("5.0.0"), exact("1.0.0")), Some(MissingCapability::ReplayVersion)),
        (turn(Some("5.0.0"), Route::AnyNode), Some(MissingCapability::ReplayVersion)),
        (turn(None, exact("7.0.0")), Some(MissingCapability::OrchestrationVersion)),
        (turn(None, Route::new("Other", None)), Some(MissingCapability::Orchestration)),
        (activity("Act", Some("gpu")), None),
        (activity("Act", Some("disk")), Some(MissingCapability::Tag)),
        (activity("Other", None), Some(MissingCapability::Activity)),
    ] {
        assert_eq!(missing_capability(&nodes, 10_000, &what), missing, "{what}");
        assert_eq!(missing_capability(&nodes, 13_001, &what), Some(MissingCapability::LiveNode), "{what}");
    }
    let replays_nothing =
        NodeInfo { replays: Vec::new(), orchestrations: HandlerSet::default(), ..info("worker") };
    let workers = [seen(replays_nothing, 0, 10_000)];
    for what in [turn(None, Route::AnyNode), turn(Some("1.0.0"), exact("1.0.0")), turn(None, exact("1.0.0"))]
    {
        let missing = missing_capability(&workers, 10_000, &what);
        assert_eq!(
            missing,
            Some(MissingCapability::Orchestration),
            "{what} for a node that runs activities only"
        );
    }
    assert_eq!(missing_capability(&workers, 10_000, &activity("Act", None)), None);
    let unreadable = NodeRecord { info: None, ..seen(info("other"), 0, 10_000) };
    let what = activity("Other", None);
    assert_eq!(missing_capability(&[unreadable], 10_000, &what), None, "who knows what it can do");
}

#[test]
fn work_is_ended_only_when_nobody_can_be_wronged() {
    let (now, end_after) = (100_000, 20_000);
    let what = activity("Other", None);
    let old = || seen(info("n"), 0, now);
    let able = || NodeInfo { activities: ["Other".to_string()].into(), ..info("able") };
    let ends = |nodes: &[NodeRecord]| {
        EndingRule::new(nodes, now, end_after).is_some_and(|rule| rule.is_out_of_reach(&what))
    };
    assert!(ends(&[old()]));
    assert!(!ends(&[]), "no node");
    assert!(!ends(&[seen(info("n"), 0, now - 3_001)]), "no live node");
    assert!(!ends(&[old(), seen(info("new"), now - end_after + 1, now)]), "one joined lately");
    assert!(ends(&[old(), seen(info("new"), now - end_after, now)]));
    assert!(!ends(&[old(), seen(able(), 0, now)]), "one can do it");
    assert!(!ends(&[old(), seen(able(), 0, now - end_after)]), "one could, lately");
    let left = NodeRecord { left_at_ms: Some(now - end_after), ..seen(able(), 0, now - end_after) };
    assert!(!ends(&[old(), left]), "one that could left lately");
    assert!(ends(&[old(), seen(able(), 0, now - end_after - 1)]));
    assert!(!ends(&[old(), NodeRecord { info: None, ..seen(info("x"), 0, now) }]), "one is a riddle");
    let rule =
        |nodes: &[NodeRecord]| EndingRule::new(nodes, now, end_after).map(|rule| rule.waiting_since_ms());
    assert_eq!(rule(&[old()]), Some(now - end_after));
}
