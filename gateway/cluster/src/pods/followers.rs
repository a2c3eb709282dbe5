//! Who is told what becomes of pods.

use std::{
    fmt::Debug,
    sync::{Arc, Weak},
};

use parking_lot::RwLock;

/// Is told what the source reports about pods. The source waits for it.
pub trait PodFollower: Debug + Send + Sync {
    /// The UIDs of the pods that it follows: after a list it is told what it has missed about these.
    fn followed(&self) -> Vec<Arc<str>>;

    /// A pod is on this node; told again with each change of the pod.
    fn on_node(&self, uid: &str, node: &str);

    /// A pod has ended, or does not exist any more.
    fn gone(&self, uid: &str);
}

/// The followers that are still in use.
#[derive(Debug, Default)]
pub(super) struct Followers(RwLock<Vec<Weak<dyn PodFollower>>>);

impl Followers {
    /// Adds one, if it is new.
    pub(super) fn add(&self, follower: Weak<dyn PodFollower>) {
        let mut followers = self.0.write();
        followers.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&follower));
        followers.push(follower);
    }

    pub(super) fn tell(&self, news: impl Fn(&dyn PodFollower)) {
        for follower in self.0.read().iter().filter_map(Weak::upgrade) {
            news(&*follower);
        }
    }
}
