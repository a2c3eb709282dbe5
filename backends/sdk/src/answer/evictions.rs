//! Converts a policy's answers about candidates to positions.

use extender_policy_api::v1beta1 as api;

use crate::{Candidate, Eviction, error::CallError, pod, reads::layout::SentFields};

/// Checks the pods of all victims.
pub(super) fn check_victims(candidates: &[api::Candidate], fields: &SentFields) -> Result<(), CallError> {
    for (candidate, api::Candidate { victims, .. }) in candidates.iter().enumerate() {
        for (victim, api::Victim { pod, .. }) in victims.iter().enumerate() {
            let checked = pod.as_ref().map_or(Ok(()), |pod| pod::check(pod, fields));
            checked.map_err(|source| CallError::VictimValues { candidate, victim, source })?;
        }
    }
    Ok(())
}

/// The candidates that stay. A policy that names a victim that does not exist has made a mistake.
pub(super) fn kept(
    candidates: &[Candidate<'_>],
    evictions: Vec<Eviction>,
) -> Result<Vec<api::KeptCandidate>, CallError> {
    let mut all = Vec::new();
    for ((position, candidate), eviction) in (0..).zip(candidates).zip(evictions) {
        let (victims, added_uids, pdb_violations) = match eviction {
            Eviction::Spare => continue,
            Eviction::All => ((0..).zip(candidate.victims()).map(|(at, _)| at).collect(), Vec::new(), None),
            Eviction::Only(victims) => (checked(position, candidate, victims)?, Vec::new(), None),
            Eviction::Changed { victims, added, pdb_violations } => {
                (checked(position, candidate, victims)?, added, Some(pdb_violations))
            }
        };
        all.push(api::KeptCandidate { position, victims, added_uids, pdb_violations });
    }
    Ok(all)
}

fn checked(position: u32, candidate: &Candidate<'_>, mut victims: Vec<u32>) -> Result<Vec<u32>, CallError> {
    victims.sort_unstable();
    let twice = victims.windows(2).any(|pair| pair[0] == pair[1]);
    let there = candidate.victims().len();
    let beyond = victims.last().is_some_and(|last| usize::try_from(*last).is_ok_and(|last| last >= there));
    if twice || beyond { Err(CallError::WrongVictims { position, victims, there }) } else { Ok(victims) }
}
