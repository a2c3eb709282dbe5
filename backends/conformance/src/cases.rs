//! All cases, by what they are about.

mod answered;
mod args;
mod bind;
mod calls;
mod filter;
mod handshake;
mod hooks;
mod hostile;
mod introspection;
mod malformed;
mod metadata;
mod outcomes;
mod preempt;
mod pure;
mod purpose;
mod reads;
mod replicas;
mod scope;
mod score;
mod service;
mod sizes;
mod table;
mod table_life;
mod table_rules;
mod time;
mod undeclared;
mod watch;

pub(crate) use self::bind::BINDING;
use crate::case::Case;

/// The plain question of each verb, which comes first in every run, whichever cases it has.
pub fn plain() -> Vec<Case> {
    answered::cases()
}

/// The cases in the order in which they run.
pub fn all() -> Vec<Case> {
    let cases = [
        plain(),
        handshake::cases(),
        args::cases(),
        service::cases(),
        introspection::cases(),
        calls::cases(),
        malformed::cases(),
        purpose::cases(),
        metadata::cases(),
        scope::cases(),
        pure::cases(),
        reads::cases(),
        undeclared::cases(),
        filter::cases(),
        score::cases(),
        preempt::cases(),
        bind::cases(),
        hooks::cases(),
        outcomes::cases(),
        watch::cases(),
        replicas::cases(),
        table::cases(),
        table_rules::cases(),
        table_life::cases(),
        sizes::cases(),
        hostile::cases(),
        time::cases(),
        pure::last_cases(),
    ];
    cases.into_iter().flatten().collect()
}
