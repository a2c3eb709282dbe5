//! Compares this machine's clock with the apiserver's, by the header `Date` of its answers: certificates and tokens are valid
//! at a time, and all that the program reports has one.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use http::{HeaderMap, header::DATE};
use k8s_openapi::jiff::{SignedDuration, Timestamp, fmt::rfc2822};

/// By how many seconds the apiserver was ahead in the latest answer.
static AHEAD: AtomicI64 = AtomicI64::new(0);

/// By how many seconds the apiserver's clock was ahead of this machine's in the latest answer; negative: behind. Zero before
/// the first one. The time that an answer took counts as agreement, and so does a second: a `Date` has no fractions.
pub fn seconds_ahead() -> i64 {
    AHEAD.load(Relaxed)
}

/// Reads the clock from the head of an answer to a request that was sent then.
pub(crate) fn observe(sent: Timestamp, headers: &HeaderMap) {
    if let Some(ahead) = ahead(sent, Timestamp::now(), headers) {
        AHEAD.store(ahead, Relaxed);
    }
}

fn ahead(sent: Timestamp, received: Timestamp, headers: &HeaderMap) -> Option<i64> {
    let date = rfc2822::DateTimeParser::new().parse_timestamp(headers.get(DATE)?).ok()?;
    let (earliest, latest) = (sent - SignedDuration::from_secs(1), received + SignedDuration::from_secs(1));
    let nearest = date.clamp(earliest.min(latest), latest);
    Some(date.duration_since(nearest).as_secs())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn an_answer_shows_how_far_the_clocks_are_apart() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (sent, received) = (at("2026-11-27T07:00:00.9Z"), at("2026-11-27T07:00:04Z"));
        let ahead = |date: &str| {
            let headers = HeaderMap::from_iter([(DATE, HeaderValue::from_str(date).unwrap())]);
            ahead(sent, received, &headers)
        };
        for (date, expected) in [
            ("Fri, 27 Nov 2026 07:00:00 GMT", Some(0)),
            ("Fri, 27 Nov 2026 07:00:05 GMT", Some(0)),
            ("Fri, 27 Nov 2026 10:00:05 GMT", Some(3 * 3600)),
            ("Fri, 27 Nov 2026 06:59:49 GMT", Some(-10)),
            ("yesterday", None),
        ] {
            assert_eq!(ahead(date), expected, "{date}");
        }
        assert_eq!(super::ahead(sent, received, &HeaderMap::new()), None);
        assert_eq!(super::ahead(received, sent, &HeaderMap::new()), None, "set back meanwhile");
    }
}
