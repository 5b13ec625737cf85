//! Times: local for people, RFC 3339 in UTC for programs, and what may be written for one.

use std::time::Duration;

use duroxide::clock::{Clock as _, SystemClock};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The system's time, in ms since the epoch.
pub(crate) fn now_ms() -> u64 {
    SystemClock::default().now_ms()
}

fn stamp(ms: u64) -> Timestamp {
    i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or(Timestamp::MAX)
}

/// A time for people.
pub(crate) fn local(ms: u64) -> String {
    stamp(ms).to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A time for programs.
pub(crate) fn utc(ms: u64) -> String {
    stamp(ms).to_string()
}

/// A duration for people: its two largest units.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// A duration as it is written: `500ms`, `30s`, `5m`, `2h`, `3d`.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no duration: write it as 500ms, 30s, 5m, 2h or 3d");
    let digits = text.find(|character: char| !character.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(ms).map(Duration::from_millis).ok_or_else(wrong)
}

/// A time as it is written, in ms since the epoch: RFC 3339, a local date with or without a time, or how long ago.
pub(crate) fn parse_time(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "'{text}' is no time: write it as 2026-05-01T10:00:00Z, '2026-05-01 10:00:00', 2026-05-01, or how long ago: 2h"
        )
    };
    if let Ok(ago) = parse_span(text) {
        let ago = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
        return Ok(now_ms().saturating_sub(ago));
    }
    let stamp = match text.parse::<Timestamp>() {
        Ok(stamp) => stamp,
        Err(_) => {
            let civil: DateTime = text.parse().map_err(|_| wrong())?;
            civil.to_zoned(TimeZone::system()).map_err(|_| wrong())?.timestamp()
        }
    };
    u64::try_from(stamp.as_millisecond()).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_form_is_understood() {
        assert_eq!(parse_time("2026-05-01T10:00:00Z"), Ok(1_777_629_600_000));
        assert!(parse_time("2026-05-01").is_ok() && parse_time("2026-05-01 10:00:00").is_ok());
        assert!(parse_time("2h").is_ok_and(|ms| ms < now_ms()));
        assert!(parse_time("soon").is_err_and(|error| error.contains("'soon' is no time")));
        assert_eq!(parse_span("5m"), Ok(Duration::from_secs(300)));
        assert!(parse_span("5 minutes").is_err() && parse_span("5").is_err());
    }

    #[test]
    fn a_program_reads_what_it_is_given() {
        assert_eq!(utc(1_777_629_600_123), "2026-05-01T10:00:00.123Z");
        assert_eq!(parse_time(&utc(1_777_629_600_123)), Ok(1_777_629_600_123));
    }
}
