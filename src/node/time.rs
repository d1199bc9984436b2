//! Dates and durations of the commands. Nothing on the consensus path reads a clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Now, as CometBFT's genesis wants it.
pub fn now_rfc3339() -> String {
    rfc3339(now_s())
}

/// Seconds since 1970 as `2026-12-01T02:03:04Z`.
pub fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The civil date of a day since 1970 (proleptic Gregorian calendar).
fn civil(days: u64) -> (u64, u64, u64) {
    // Years start in March, so that the leap day is the last of its year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    (year, month, day - (153 * shifted + 2) / 5 + 1)
}

/// Seconds of `15d`, `12h`, `30m` or `45s`.
pub fn parse_duration_s(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is no duration like 15d");
    let units = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];
    let found = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(*unit)?, factor)));
    let (digits, factor) = found.ok_or_else(bad)?;
    let count: u64 = digits.parse().map_err(|_| bad())?;
    count.checked_mul(*factor).ok_or_else(|| format!("{text} is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_durations() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(rfc3339(1_796_087_045), "2026-12-01T01:04:05Z");
        assert_eq!(parse_duration_s("15d"), Ok(1_296_000));
        assert_eq!(parse_duration_s("90s"), Ok(90));
        for bad in ["soon", "", "d", "90", "-1d", "99999999999999999999d"] {
            assert!(parse_duration_s(bad).is_err(), "{bad}");
        }
    }
}
