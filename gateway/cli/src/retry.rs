//! `--retry`: makes kube-scheduler try all waiting pods again, with the rights of the person at the keyboard.

use clap::Args;
use extender_apiserver::{RETRY, touch_node};

use super::{
    apiserver::ClusterOptions,
    output::{Console, Failure},
};

/// Whether pods are to be tried again.
#[derive(Debug, Args)]
pub(super) struct RetryOptions {
    /// Make kube-scheduler try all rejected pods again now, by an annotation at a node, with your own access to the cluster
    #[arg(long)]
    retry: bool,
}

impl RetryOptions {
    /// Does it if that is requested, and says so.
    ///
    /// # Errors
    /// The apiserver cannot be reached, or does not allow it.
    pub(super) async fn run(
        &self,
        cluster: &ClusterOptions,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        if !self.retry {
            return Ok(());
        }
        let not_done = |why: String| Failure::NotRetried(why);
        let access = cluster.access().await?.map_err(not_done)?;
        let node = touch_node(&access.client).await.map_err(|error| not_done(error.to_string()))?;
        let node = node.ok_or_else(|| not_done("the cluster has no node".to_owned()))?;
        writeln!(
            console.notes,
            "kube-scheduler tries all rejected pods again: node {node} has a new value of {RETRY}"
        )?;
        Ok(())
    }
}
