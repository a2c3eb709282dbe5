//! Limits how often a backend may change its views on one connection: each change encodes the rows of all nodes
//! again, on the thread that serves calls.

use std::{collections::BTreeSet, time::Duration};

use extender_policy_api::v1alpha1::GetInfoResponse;
use tokio::time::Instant;

/// The shortest time between two changes; it doubles with each change, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// After this long without a change, the pause is the shortest again.
const QUIET: Duration = Duration::from_mins(10);

/// The changes on one connection.
#[derive(Debug, Default)]
pub(super) struct ViewChanges(Option<LatestChange>);

#[derive(Debug)]
struct LatestChange {
    at: Instant,
    /// The pause before the next change.
    pause: Duration,
}

impl ViewChanges {
    /// Whether a handshake is accepted after this one: not if its views change too soon.
    pub(super) fn allow(&mut self, known: &GetInfoResponse, next: &GetInfoResponse) -> bool {
        // Lists are unordered: a backend may write them from a map.
        let views = |info: &GetInfoResponse| {
            let verbs: BTreeSet<_> =
                info.verbs.iter().map(|verb| (verb.verb, verb.node_view, verb.usage)).collect();
            let set = |texts: &[String]| texts.iter().cloned().collect::<BTreeSet<_>>();
            (verbs, set(&info.annotation_prefixes), info.pod_raw, set(&info.services))
        };
        views(known) == views(next) || self.turn()
    }

    fn turn(&mut self) -> bool {
        let now = Instant::now();
        let pause = match &self.0 {
            None => FIRST_PAUSE,
            Some(LatestChange { at, pause }) => match now - *at {
                since if since < *pause => return false,
                since if since >= QUIET => FIRST_PAUSE,
                _ => (*pause * 2).min(LONGEST_PAUSE),
            },
        };
        self.0 = Some(LatestChange { at: now, pause });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking_for(prefix: u32) -> GetInfoResponse {
        let annotation_prefixes = vec![format!("{prefix}.example.com/")];
        GetInfoResponse { annotation_prefixes, ..GetInfoResponse::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn other_views_are_taken_more_and_more_rarely() {
        let mut changes = ViewChanges::default();
        let mut known = asking_for(0);
        let mut taken = Vec::new();
        for second in 1..=200 {
            tokio::time::advance(Duration::from_secs(1)).await;
            if changes.allow(&known, &asking_for(second)) {
                known = asking_for(second);
                taken.push(second);
            }
        }
        assert_eq!(taken, [1, 6, 16, 36, 76, 136, 196]);
        let prefixes = ["a.example.com/", "b.example.com/"].map(str::to_owned).to_vec();
        let listed = GetInfoResponse { annotation_prefixes: prefixes.clone(), ..known.clone() };
        let reversed = prefixes.into_iter().rev().collect();
        let reversed = GetInfoResponse { annotation_prefixes: reversed, ..known.clone() };
        assert!((0..100).all(|_| changes.allow(&listed, &reversed)), "another order is no other view");
        let revised = GetInfoResponse { revision: "2".to_owned(), ..known.clone() };
        assert!(changes.allow(&known, &revised), "another revision with the same views is taken at once");
        tokio::time::advance(QUIET).await;
        assert_eq!((0..10).filter(|_| changes.allow(&known, &asking_for(0))).count(), 1);
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(changes.allow(&known, &asking_for(0)));
    }
}
