//! All cases, by the configurations that they share.

mod bind;
mod calls;
mod failures;
mod handshake;
mod hooks;
mod late;
mod outcomes;
mod preempt;
mod pure;
mod reads;
mod scores;
mod tables;
mod watch;

use crate::case::Group;

/// The groups in the order in which they are reported.
pub(crate) fn groups() -> Vec<Group> {
    let mut groups = handshake::groups();
    groups.extend([calls::group(), reads::group(), failures::group(), late::group(), scores::group()]);
    groups.extend([preempt::group(), bind::group(), hooks::group(), pure::group()]);
    groups.extend(tables::groups());
    groups.extend([outcomes::group(), watch::group()]);
    groups
}
