//! Queries the admin addresses of the gateway's replicas concurrently.

mod access;
mod endpoint;
mod pod;
mod request;
#[cfg(test)]
mod tests;

use std::{fmt::Display, sync::Arc};

use clap::{Args, value_parser};
use futures_util::future::join_all;
use http::uri::Scheme;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) use self::request::AdminQuery;
use extender_gateway_api::explain::replicas::{Away, Gathered};
use extender_gateway_api::{LogList, OverrideList, Status};
use extender_gateway_settings::BackendUrl;

use self::{
    access::AccessOptions,
    endpoint::{AdminEndpoint, admin_url},
    request::QueryError,
};
use super::{
    apiserver::{ClusterAccess, ClusterOptions},
    names,
    output::Failure,
};

/// The variable with the gateways to query if the command line names none.
const GATEWAYS_VARIABLE: &str = "EXTENDER_GATEWAYS";
/// The URL of a gateway with the default `admin.address`.
const DEFAULT_URL: &str = "http://127.0.0.1:9403";

const URL_HELP: &str = "Admin URL of a gateway; repeat or separate with commas. A name with several \
    addresses, as that of a headless Service, all are asked [default: those of the variable EXTENDER_GATEWAYS, or \
    http://127.0.0.1:9403]";

/// Which gateways are queried.
#[derive(Debug, Args)]
#[command(next_help_heading = "Gateways")]
pub(super) struct GatewayOptions {
    #[arg(long = "gateway", value_name = "URL", value_delimiter = ',', value_parser = admin_url, help = URL_HELP)]
    urls: Vec<BackendUrl>,

    /// Query the gateway's pods in this namespace, through a port that is forwarded to each; works wherever
    /// `kubectl port-forward` does
    #[arg(long, value_name = "NAMESPACE", value_parser = names::namespace)]
    gateway_namespace: Option<String>,

    /// Label selector of the gateway's pods
    #[arg(
        long,
        value_name = "LABELS",
        requires = "gateway_namespace",
        default_value = "app.kubernetes.io/name=extender-gateway"
    )]
    gateway_selector: String,

    /// The port of admin.address in those pods
    #[arg(long, value_name = "PORT", requires = "gateway_namespace", default_value_t = 9403,
        value_parser = value_parser!(u16).range(1..))]
    admin_port: u16,

    #[command(flatten)]
    access: AccessOptions,

    #[command(flatten)]
    pub(super) cluster: ClusterOptions,
}

/// The replicas to query, and those that could not be found.
#[derive(Default)]
pub(super) struct Gateways {
    endpoints: Vec<AdminEndpoint>,
    away: Vec<Away>,
}

/// An answer that identifies its replica. Two processes on one machine have the same name.
pub(super) trait ReplicaAnswer: DeserializeOwned {
    /// The replica's name, and when its decision log began.
    fn replica(&mut self) -> (&mut String, Timestamp);
}

impl<T: DeserializeOwned> ReplicaAnswer for LogList<T> {
    fn replica(&mut self) -> (&mut String, Timestamp) {
        (&mut self.gateway, self.log.since)
    }
}

impl ReplicaAnswer for OverrideList {
    fn replica(&mut self) -> (&mut String, Timestamp) {
        (&mut self.gateway, self.log.since)
    }
}

impl ReplicaAnswer for Status {
    fn replica(&mut self) -> (&mut String, Timestamp) {
        (&mut self.gateway, self.log.since)
    }
}

/// The gateways of the variable; empty if it is not set.
fn variable() -> String {
    std::env::var(GATEWAYS_VARIABLE).unwrap_or_default()
}

impl GatewayOptions {
    /// Whether the apiserver is needed to find the replicas.
    pub(super) fn needs_apiserver(&self) -> bool {
        self.gateway_namespace.is_some()
    }

    /// Whether the command line or the variable names gateways.
    pub(super) fn are_named(&self) -> bool {
        !self.urls.is_empty() || self.needs_apiserver() || !variable().is_empty()
    }

    /// Finds the replicas; reads how the apiserver is reached only if they are to be found there.
    ///
    /// # Errors
    /// As for [`ClusterOptions::access`].
    pub(super) async fn reach(&self) -> Result<Gateways, Failure> {
        let access = if self.needs_apiserver() {
            self.cluster.access().await?
        } else {
            Err("it was not needed".to_owned())
        };
        Ok(self.find(&access).await)
    }

    /// Finds the replicas.
    pub(super) async fn find(&self, access: &ClusterAccess) -> Gateways {
        let mut gateways = Gateways::default();
        let urls = self.urls(&variable()).unwrap_or_else(|wrong| {
            gateways.add(&GATEWAYS_VARIABLE, Err(QueryError::Url(wrong)));
            Vec::new()
        });
        // Whether a pod requires TLS is known when it answers.
        let may_use_tls = self.needs_apiserver() || urls.iter().any(|url| *url.scheme() == Scheme::HTTPS);
        let credentials = self.access.read(may_use_tls).map(Arc::new).map_err(Arc::new);
        for url in urls {
            gateways.add(&url, endpoint::addresses(&url, &credentials).await);
        }
        if let Some(namespace) = &self.gateway_namespace {
            let labels = &self.gateway_selector;
            let found = match access {
                Ok(cluster) => {
                    endpoint::pods(&cluster.client, namespace, labels, self.admin_port, &credentials).await
                }
                Err(why) => Err(QueryError::Apiserver(why.clone())),
            };
            gateways.add(&format_args!("the pods {labels} in namespace {namespace}"), found);
        }
        gateways
    }

    /// The URLs to query; those of the variable apply if the command line names no gateways.
    fn urls(&self, variable: &str) -> Result<Vec<BackendUrl>, String> {
        if !self.urls.is_empty() || self.gateway_namespace.is_some() {
            return Ok(self.urls.clone());
        }
        let urls = if variable.is_empty() { DEFAULT_URL } else { variable };
        urls.split(',').map(admin_url).collect()
    }
}

impl Gateways {
    fn add(&mut self, name: &impl Display, found: Result<Vec<AdminEndpoint>, QueryError>) {
        match found {
            Ok(endpoints) => self.endpoints.extend(endpoints),
            Err(error) => self.away.push(Away::new(name, &error)),
        }
    }

    /// Queries all replicas concurrently. A replica that is reached in two ways counts once.
    pub(super) async fn query<T: ReplicaAnswer>(&self, path: &str) -> Gathered<T> {
        self.ask(AdminQuery::get(path)).await
    }

    /// The JSON of the first replica that has an answer to this path.
    ///
    /// # Errors
    /// Why each of them has none.
    pub(super) async fn first(&self, path: &str) -> Result<Value, Vec<Away>> {
        let mut away = self.away.clone();
        for endpoint in &self.endpoints {
            let answer = endpoint.query(AdminQuery::get(path)).await;
            match answer.and_then(|json| serde_json::from_slice(&json).map_err(QueryError::Malformed)) {
                Ok(json) => return Ok(json),
                Err(error) => away.push(Away::new(endpoint, &error)),
            }
        }
        Err(away)
    }

    /// Sends a query to all replicas concurrently.
    pub(super) async fn ask<T: ReplicaAnswer>(&self, query: AdminQuery<'_>) -> Gathered<T> {
        let (mut replicas, mut found, mut away) = (Vec::new(), Vec::new(), self.away.clone());
        let answer = async |endpoint: &AdminEndpoint| {
            serde_json::from_slice::<T>(&endpoint.query(query).await?).map_err(QueryError::Malformed)
        };
        let responses = join_all(self.endpoints.iter().map(answer)).await;
        for (endpoint, response) in self.endpoints.iter().zip(responses) {
            match response {
                Ok(mut answer) => {
                    let (name, log_since) = answer.replica();
                    let replica = (name.clone(), log_since);
                    if !replicas.contains(&replica) {
                        replicas.push(replica);
                        found.push((answer, endpoint));
                    }
                }
                Err(error) => away.push(Away::new(endpoint, &error)),
            }
        }
        for (answer, endpoint) in &mut found {
            let (name, _) = answer.replica();
            if replicas.iter().filter(|(other, _)| other == name).count() > 1 {
                *name = format!("{name} at {endpoint}");
            }
        }
        Gathered { answers: found.into_iter().map(|(answer, _)| answer).collect(), away }
    }
}
