//! Binds pods and copies labels of their node to them as annotations.
//!
//! A container cannot read the zone or rack that it runs in: the downward API has the pod's fields, not the node's,
//! and the node is not known when the pod is created. The apiserver copies the annotations of a Binding to the pod
//! in the same write that binds it, so they exist before any container starts.

mod args;
mod cluster;

use std::collections::BTreeMap;

use extender_policy_sdk::{Args, ArgsError, Bind, BindAsk, BindFailed, BoxFuture, Info, Policy, Unanswered};
use kube::Client;

use self::{args::Annotations, cluster::NodesAndPods};

/// The policy, for one set of args.
#[derive(Debug)]
pub struct LabelBinder {
    name: String,
    annotations: Annotations,
    cluster: NodesAndPods,
}

impl LabelBinder {
    /// A policy with the name `name`, 1 to 63 bytes.
    ///
    /// # Errors
    /// The args are not those of this policy.
    pub fn new(name: &str, client: Client, args: &Args) -> Result<Self, ArgsError> {
        let annotations = Annotations::new(args.parse()?)?;
        Ok(Self { name: name.to_owned(), annotations, cluster: NodesAndPods::new(client) })
    }

    /// A pod that is already bound to this node counts as bound: a repetition succeeds, and so does a bind whose
    /// answer was lost.
    async fn bind(&self, ask: BindAsk<'_>) -> Result<Bind, BindFailed> {
        let labels = match self.cluster.labels(ask.node()).await {
            Ok(labels) => labels,
            Err(why) => return Ok(Bind::NotBound(why)),
        };
        let Err(error) = self.cluster.bind(ask, self.annotations.of(&labels)).await else {
            return Ok(Bind::Bound);
        };
        let refused = format!("cannot create the Binding: {error}");
        match self.cluster.is_bound(ask).await {
            Ok(true) => Ok(Bind::Bound),
            _ if error.excludes_an_effect() => Ok(Bind::NotBound(refused)),
            Ok(false) => Err(BindFailed(refused)),
            Err(unknown) => Err(BindFailed(format!("{refused}; and then {unknown}"))),
        }
    }
}

/// Labels or annotations.
type Pairs = BTreeMap<String, String>;

impl Policy for LabelBinder {
    /// The Binding needs nothing of the pod but its names, and the labels of the node come from the apiserver.
    fn info(&self) -> Info {
        Info::new(&self.name, env!("CARGO_PKG_VERSION")).binds()
    }

    fn bind<'a>(&'a self, ask: BindAsk<'a>) -> BoxFuture<'a, Result<Bind, Unanswered>> {
        Box::pin(async move { Ok(self.bind(ask).await?) })
    }
}

#[cfg(test)]
mod tests;
