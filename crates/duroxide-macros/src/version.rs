//! Whether a text is a version: `major.minor.patch[-pre][+build]`, as semantic versioning defines it.
//!
//! The runtime checks versions with the crate `semver`. The tests compare; the attribute does without it, because
//! dependencies of a macro are built before everything that uses it.

pub(crate) fn is_version(text: &str) -> bool {
    let (rest, build) = split(text, '+');
    let (core, pre) = split(rest, '-');
    let mut numbers = core.split('.');
    let three = [numbers.next(), numbers.next(), numbers.next()];
    three.iter().all(|number| number.is_some_and(is_number))
        && numbers.next().is_none()
        && pre.is_none_or(|pre| pre.split('.').all(is_pre_release))
        && build.is_none_or(|build| build.split('.').all(is_identifier))
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn is_number(text: &str) -> bool {
    is_numeric(text) && has_no_leading_zero(text) && text.parse::<u64>().is_ok()
}

fn is_pre_release(text: &str) -> bool {
    is_identifier(text) && (!is_numeric(text) || has_no_leading_zero(text))
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_numeric(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn has_no_leading_zero(text: &str) -> bool {
    text.len() == 1 || !text.starts_with('0')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::is_version;

    #[test]
    fn a_version_is_what_semver_accepts() {
        let texts = [
            "1.0.0",
            "2.1.0-beta.1",
            "2.1.0-beta.01",
            "2.1.0+build.01",
            "1.0.0-a-b+c-d",
            "1.0",
            "1.0.0.0",
            "01.0.0",
            "1.0.0-",
            "1.0.0+",
            "1.0.0-a..b",
            "",
            "v1.0.0",
            " 1.0.0",
            "18446744073709551616.0.0",
            "1.0.0-18446744073709551616",
            "1.0.0-é",
        ];
        for text in texts {
            assert_eq!(is_version(text), semver::Version::parse(text).is_ok(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_judged_as_semver_does(text in "[0-9]{1,2}\\.[01a]{1,2}\\.[0-9]{0,2}[-+.]?[0a1.-]{0,4}[-+]?[0a.]{0,3}") {
            prop_assert_eq!(is_version(&text), semver::Version::parse(&text).is_ok(), "{:?}", text);
        }
    }
}
