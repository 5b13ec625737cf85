//! Ids of children, and the checks of what callers hand in.

use duroxide_core::limits::{MAX_INSTANCE_ID_BYTES, MAX_NAME_BYTES, MAX_PAYLOAD_BYTES};
use duroxide_core::{
    INITIAL_EVENT_ID, INITIAL_EXECUTION_ID, SUB_ORCH_AUTO_PREFIX, auto_child_id, build_child_instance_id,
    check_child_instance_id, check_name, check_payload, check_root_instance_id, check_version,
    is_auto_generated_sub_orch_id,
};
use proptest::prelude::*;

fn generated_id(parent: &str, execution_id: u64, event_id: u64) -> String {
    build_child_instance_id(parent, &auto_child_id(execution_id, event_id))
}

#[test]
fn the_first_execution_and_the_first_event_are_1() {
    assert_eq!((INITIAL_EXECUTION_ID, INITIAL_EVENT_ID, SUB_ORCH_AUTO_PREFIX), (1, 1, "sub::"));
}

#[test]
fn a_generated_child_id_names_parent_and_event_and_from_execution_2_on_the_execution() {
    assert_eq!(generated_id("order", 1, 2), "order::sub::2");
    assert_eq!(generated_id("order", 2, 2), "order::sub::2_2");
    assert_eq!(generated_id("order", 13, 40), "order::sub::13_40");
    assert_eq!(generated_id("order::sub::2", 1, 3), "order::sub::2::sub::3");
}

#[test]
fn a_chosen_child_id_stays_as_it_is() {
    assert_eq!(build_child_instance_id("order", "shipping"), "shipping");
    assert_eq!(build_child_instance_id("order", "sub::7"), "order::sub::7");
}

#[test]
fn a_generated_id_is_recognised() {
    for generated in ["sub::2", "order::sub::2", "a::sub::2::sub::3_4"] {
        assert!(is_auto_generated_sub_orch_id(generated), "{generated}");
    }
    for chosen in ["order", "sub", "sub:2", "my-sub::2", "order::2", "a::subs::b", ""] {
        assert!(!is_auto_generated_sub_orch_id(chosen), "{chosen}");
    }
}

#[test]
fn a_root_id_may_not_look_like_a_childs() {
    for reserved in ["sub::2", "order::sub::2", "x::sub::"] {
        let text = check_root_instance_id(reserved).unwrap_err();
        assert!(text.contains("reserved sub-orchestration marker"), "{text}");
        let text = check_child_instance_id(reserved).unwrap_err();
        assert!(text.contains("reserved marker"), "{text}");
    }
    for fine in ["order-42", "my-sub::2", "a::b", "\u{1f980}"] {
        assert_eq!(check_root_instance_id(fine), Ok(()));
        assert_eq!(check_child_instance_id(fine), Ok(()));
    }
}

#[test]
fn ids_and_names_are_not_empty_not_too_long_and_without_nul() {
    let name = |text: &str| check_name("activity name", text);
    for (check, max_bytes) in [
        (&check_root_instance_id as &dyn Fn(&str) -> Result<(), String>, MAX_INSTANCE_ID_BYTES),
        (&check_child_instance_id, MAX_INSTANCE_ID_BYTES),
        (&name, MAX_NAME_BYTES),
    ] {
        for empty in ["", " ", "\t\n"] {
            assert!(check(empty).unwrap_err().contains("is empty"));
        }
        assert_eq!(check(&"x".repeat(max_bytes)), Ok(()), "at the limit is fine");
        let text = check(&"x".repeat(max_bytes + 1)).unwrap_err();
        assert!(
            text.contains(&format!("({} bytes) exceeds limit ({max_bytes} bytes)", max_bytes + 1)),
            "{text}"
        );
        assert!(check(&"\u{1f980}".repeat(max_bytes / 4 + 1)).is_err(), "the limit counts bytes");
        assert!(check("a\0b").unwrap_err().contains("NUL"));
    }
    assert!(name("").unwrap_err().starts_with("activity name"), "the text says what was checked");
}

#[test]
fn a_payload_is_measured_in_bytes() {
    assert_eq!(check_payload("input", ""), Ok(()));
    let largest = "x".repeat(MAX_PAYLOAD_BYTES);
    assert_eq!(check_payload("input", &largest), Ok(()));
    let text = check_payload("input", &(largest + "x")).unwrap_err();
    assert!(text.starts_with("input (") && text.contains("exceeds limit"), "{text}");
    assert!(text.len() < 200, "the payload itself is not quoted");
}

#[test]
fn a_version_is_whole_semver() {
    assert_eq!(check_version("1.2.3").unwrap(), semver::Version::new(1, 2, 3));
    assert!(check_version("1.2.3-rc.1+build").is_ok());
    for wrong in ["", "1", "1.2", "v1.2.3", "1.2.x", "latest"] {
        let text = check_version(wrong).unwrap_err();
        assert!(text.contains(&format!("'{wrong}'")) && text.contains("1.2.3"), "{text}");
    }
}

proptest! {
    #[test]
    fn no_root_id_can_take_a_generated_childs_place(parent in "[a-z:]{1,12}", execution in 1_u64.., event in 2_u64..) {
        let child = generated_id(&parent, execution, event);
        prop_assert!(is_auto_generated_sub_orch_id(&child));
        prop_assert!(check_root_instance_id(&child).is_err());
        prop_assert!(check_child_instance_id(&child).is_err());
    }

    #[test]
    fn two_schedules_of_an_instance_never_share_a_generated_id(
        left in (1_u64..50, 2_u64..50),
        right in (1_u64..50, 2_u64..50),
    ) {
        let (left_id, right_id) =
            (generated_id("p", left.0, left.1), generated_id("p", right.0, right.1));
        prop_assert_eq!(left_id == right_id, left == right);
    }
}
