//! Logs of failures, limited: one line a minute for each cause, in which the others are counted.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The time between two lines about one cause.
const EVERY: Duration = Duration::from_mins(1);
/// After this time without a line, a cause is forgotten, with the number of lines that were left out.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(5);
/// The most causes a minute. Beyond it, all count as one.
const MAX_CAUSES: usize = 100;

/// What was logged lately.
#[derive(Debug, Default)]
pub struct Complaints {
    /// By cause: when, and how many were left out since.
    logged: Mutex<HashMap<String, (Instant, u64)>>,
}

impl Complaints {
    /// Whether to log this cause now, and how many like it were not logged since the last time.
    pub fn of(&self, cause: &str, now: Instant) -> Option<u64> {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        logged.retain(|_, (at, left_out)| {
            now.duration_since(*at) < if *left_out > 0 { FORGOTTEN_AFTER } else { EVERY }
        });
        let cause = if logged.len() < MAX_CAUSES || logged.contains_key(cause) { cause } else { "" };
        let Some((at, left_out)) = logged.get_mut(cause) else {
            logged.insert(cause.to_owned(), (now, 0));
            return Some(0);
        };
        if now.duration_since(*at) < EVERY {
            *left_out += 1;
            return None;
        }
        *at = now;
        Some(std::mem::take(left_out))
    }
}

/// For the end of a line.
pub fn more(left_out: u64) -> String {
    match left_out {
        0 => String::new(),
        more => format!(" (and {more} like it)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_logged_once_a_minute_with_the_number_of_the_others() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(complaints.of("a", at(0)), Some(0));
        assert_eq!(
            [complaints.of("a", at(1)), complaints.of("a", at(59)), complaints.of("b", at(59))],
            [None, None, Some(0)]
        );
        assert_eq!((complaints.of("a", at(60)), more(2)), (Some(2), " (and 2 like it)".to_owned()));
        for number in 0..500 {
            complaints.of(&number.to_string(), at(300));
            complaints.of(&number.to_string(), at(301));
        }
        assert!(complaints.logged.lock().unwrap().len() <= MAX_CAUSES + 1);
        assert_eq!([complaints.of("new", at(599)), complaints.of("newer", at(600))], [Some(799), Some(0)]);
        assert_eq!(complaints.logged.lock().unwrap().len(), 2, "all others are forgotten");
    }
}
