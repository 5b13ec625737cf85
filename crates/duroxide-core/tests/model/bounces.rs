//! Causes of bounces: their texts, what a log may say of them, and what is kept.

use duroxide_core::BounceCause;
use duroxide_core::limits::MAX_BOUNCE_TEXT_BYTES;

fn panicked(message: &str) -> BounceCause {
    BounceCause::Panicked { message: message.to_string() }
}

#[test]
fn a_cause_says_what_is_missing_where() {
    let order = |version: Option<&str>| BounceCause::OrchestrationNotRegistered {
        name: "Order".to_string(),
        version: version.map(str::to_string),
    };
    let charge = BounceCause::ActivityNotRegistered { name: "Charge".to_string() };
    let here = "is not registered on the node that fetched it";
    assert_eq!(order(Some("2.0.0")).to_string(), format!("orchestration Order 2.0.0 {here}"));
    assert_eq!(order(None).to_string(), format!("orchestration Order {here}"));
    assert_eq!(charge.to_string(), format!("activity Charge {here}"));
    assert_eq!(charge.missing_handler().as_deref(), Some("activity Charge"));
    assert_eq!(BounceCause::NoStart.missing_handler(), None);
}

#[test]
fn a_log_says_everything_but_the_text_of_a_panic() {
    let cause = panicked("card 4111");
    assert_eq!(cause.to_string(), "processing panicked: card 4111");
    assert_eq!(cause.logged(), "processing panicked");
    let undecodable = BounceCause::Undecodable { error: "event at position 3: EOF".to_string() };
    assert_eq!(undecodable.logged(), undecodable.to_string());
}

#[test]
fn a_long_text_is_cut_between_two_characters_once() {
    let at_the_limit = panicked(&"x".repeat(MAX_BOUNCE_TEXT_BYTES));
    assert_eq!(at_the_limit.clone().bounded(), at_the_limit);
    for width in 0..4 {
        let long = panicked(&format!("{}{}", "x".repeat(width), "😀".repeat(MAX_BOUNCE_TEXT_BYTES)));
        let cut = long.bounded();
        let BounceCause::Panicked { message } = &cut else { panic!("{cut:?}") };
        assert!(message.len() <= MAX_BOUNCE_TEXT_BYTES && message.len() > MAX_BOUNCE_TEXT_BYTES - 8);
        assert!(message.ends_with("😀…"), "{}", message.len());
        assert_eq!(cut.clone().bounded(), cut, "what was cut is not cut again");
    }
}

#[test]
fn a_cause_that_a_later_build_wrote_is_not_known() {
    assert_eq!(BounceCause::from_stored(r#"{"SomethingElse":{"name":"x"}}"#), None);
    assert_eq!(BounceCause::from_stored(""), None);
    let cause = panicked("\"quoted\" \0");
    assert_eq!(BounceCause::from_stored(&cause.to_stored()), Some(cause));
}
