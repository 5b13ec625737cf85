//! Ranges of versions, the filter made of them, and their packed form.

use duroxide_core::{
    DispatcherCapabilityFilter, Event, EventKind, SemverRange, current_build_version, pack_version,
    pinned_version_of, unpack_version,
};
use proptest::prelude::*;
use semver::Version;

fn v(text: &str) -> Version {
    Version::parse(text).expect("a version")
}

fn check(range: &SemverRange, inside: &[&str], outside: &[&str]) {
    for version in inside {
        assert!(range.contains(&v(version)), "{version} lies in {range}");
    }
    for version in outside {
        assert!(!range.contains(&v(version)), "{version} does not lie in {range}");
    }
}

#[test]
fn a_range_holds_both_its_ends() {
    let range = SemverRange::new(v("1.2.3"), v("2.0.1"));
    check(&range, &["1.2.3", "1.2.4", "1.10.0", "2.0.0", "2.0.1"], &["1.2.2", "0.9.9", "2.0.2", "10.0.0"]);
    assert_eq!(range.to_string(), ">=1.2.3, <=2.0.1");
    check(&SemverRange::new(v("2.0.0"), v("1.0.0")), &[], &["1.0.0", "1.5.0", "2.0.0"]);
}

#[test]
fn below_leaves_out_its_end() {
    check(
        &SemverRange::below(v("1.0.0"), v("2.0.0")),
        &["1.0.0", "1.999999.7"],
        &["0.9.9", "2.0.0", "2.0.1"],
    );
    check(&SemverRange::below(v("1.0.0"), v("1.3.0")), &["1.2.999999"], &["1.3.0"]);
    check(&SemverRange::below(v("1.0.0"), v("1.3.5")), &["1.3.4"], &["1.3.5"]);
    check(&SemverRange::below(v("0.0.0"), v("0.0.1")), &["0.0.0"], &["0.0.1"]);
}

#[test]
fn below_nothing_is_empty() {
    check(&SemverRange::below(v("0.0.0"), v("0.0.0")), &[], &["0.0.0", "0.0.1", "1.0.0"]);
    check(&SemverRange::below(v("1.0.0"), v("1.0.0")), &[], &["0.9.0", "1.0.0", "1.0.1"]);
    check(&SemverRange::below(v("2.0.0"), v("1.0.0")), &[], &["0.9.0", "1.0.0", "1.5.0", "2.0.0"]);
}

#[test]
fn pre_release_and_build_are_ignored() {
    let range = SemverRange::new(v("1.2.0"), v("1.3.0"));
    check(&range, &["1.2.0-alpha", "1.3.0-rc.1", "1.3.0+linux"], &["1.1.9-rc.1", "1.3.1-alpha"]);
    check(
        &SemverRange::new(v("1.2.0-beta"), v("1.3.0-alpha")),
        &["1.2.0-alpha", "1.2.0", "1.3.0"],
        &["1.3.1"],
    );
    check(&SemverRange::below(v("1.0.0"), v("2.0.0-rc.1")), &["1.9.9"], &["2.0.0-alpha"]);
    assert_eq!(pack_version(&v("1.2.3-rc.1+linux")), pack_version(&v("1.2.3")));
}

#[test]
fn a_build_replays_itself_and_everything_older() {
    let current = current_build_version();
    let next = Version::new(current.major, current.minor, current.patch + 1);
    let range = SemverRange::default_for_current_build();
    assert!(range.contains(&current) && range.contains(&v("0.0.0")) && !range.contains(&next));
    let filter = DispatcherCapabilityFilter::default_for_current_build();
    assert!(
        filter.is_compatible(&current) && filter.is_compatible(&v("0.0.0")) && !filter.is_compatible(&next)
    );
}

#[test]
fn every_range_of_a_filter_counts() {
    let filter = DispatcherCapabilityFilter {
        supported_duroxide_versions: vec![
            SemverRange::new(v("1.0.0"), v("1.1.0")),
            SemverRange::new(v("3.0.0"), v("3.0.0")),
            SemverRange::new(v("1.0.5"), v("1.2.0")),
        ],
    };
    for compatible in ["1.0.0", "1.1.0", "1.2.0", "3.0.0"] {
        assert!(filter.is_compatible(&v(compatible)), "{compatible}");
    }
    for incompatible in ["0.9.0", "1.2.1", "2.0.0", "3.0.1"] {
        assert!(!filter.is_compatible(&v(incompatible)), "{incompatible}");
    }
}

#[test]
fn an_empty_filter_matches_nothing() {
    let filter = DispatcherCapabilityFilter { supported_duroxide_versions: Vec::new() };
    assert!(!filter.is_compatible(&v("0.0.0")) && !filter.is_compatible(&current_build_version()));
}

#[test]
fn a_packed_version_is_forever() {
    assert_eq!(pack_version(&v("0.0.0")), 0);
    assert_eq!(pack_version(&v("0.0.1")), 1);
    assert_eq!(pack_version(&v("0.1.0")), 1 << 20);
    assert_eq!(pack_version(&v("1.0.0")), 1 << 40);
    assert_eq!(pack_version(&v("1.2.3")), (1 << 40) + (2 << 20) + 3);
    assert_eq!(pack_version(&Version::new(u64::MAX, u64::MAX, u64::MAX)), (1 << 60) - 1);
}

fn started(duroxide_version: &str) -> Event {
    let kind = EventKind::OrchestrationStarted {
        name: "Order".to_string(),
        version: "1.0.0".to_string(),
        input: String::new(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    let event = Event::with_event_id(1, "order-42", 1, None, kind);
    Event { duroxide_version: duroxide_version.to_string(), ..event }
}

#[test]
fn pinned_version_extracted_from_orchestration_started_event() {
    let later = Event::with_event_id(2, "order-42", 1, None, EventKind::TimerCreated { fire_at_ms: 1 });
    assert_eq!(pinned_version_of(&[started("3.1.4"), later.clone()]), Some(Version::new(3, 1, 4)));
    assert_eq!(pinned_version_of(&[]), None);
    assert_eq!(pinned_version_of(&[later]), None, "only a start pins");
    assert_eq!(pinned_version_of(&[started("yesterday's")]), None);
}

/// Small parts, parts around the 20 bits of the packed form, and any other.
fn part() -> impl Strategy<Value = u64> {
    prop_oneof![0..4_u64, (1 << 20) - 3..(1 << 20) + 3_u64, any::<u64>()]
}

fn version() -> impl Strategy<Value = Version> {
    (part(), part(), part()).prop_map(|(major, minor, patch)| Version::new(major, minor, patch))
}

proptest! {
    #[test]
    fn packing_never_turns_the_order_round(left in version(), right in version()) {
        let (packed_left, packed_right) = (pack_version(&left), pack_version(&right));
        prop_assert!(packed_left >= 0 && packed_right >= 0);
        if left <= right {
            prop_assert!(packed_left <= packed_right, "{} {}", left, right);
        } else {
            prop_assert!(packed_left >= packed_right, "{} {}", left, right);
        }
    }

    #[test]
    fn parts_of_20_bits_pack_without_loss(left: [u32; 3], right: [u32; 3]) {
        let version = |[major, minor, patch]: [u32; 3]| {
            Version::new(u64::from(major >> 12), u64::from(minor >> 12), u64::from(patch >> 12))
        };
        let (left, right) = (version(left), version(right));
        prop_assert_eq!(left.cmp(&right), pack_version(&left).cmp(&pack_version(&right)));
        prop_assert_eq!(unpack_version(pack_version(&left)), left);
    }

    #[test]
    fn below_holds_exactly_what_lies_between(min in version(), end in version(), probe in version()) {
        let inside = min <= probe && probe < end;
        prop_assert_eq!(SemverRange::below(min, end).contains(&probe), inside);
    }
}
