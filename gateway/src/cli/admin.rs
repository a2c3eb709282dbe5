//! Queries the admin addresses of the gateway's replicas concurrently.

mod address;
mod pods;
mod request;
mod trouble;

use std::fmt;

use clap::{Args, value_parser};
use futures_util::future::join_all;
use jiff::Timestamp;
use kube::Client;
use serde::{Serialize, de::DeserializeOwned};

use self::{
    address::AdminUrl,
    pods::{PodPlace, Selection},
    trouble::Trouble,
};
use super::{apiserver::Way, names};
use crate::api::{DecisionList, Status};

/// The variable with the gateways to query if the command line names none.
const USUAL: &str = "EXTENDER_GATEWAYS";
/// The URL of a gateway with the default `admin.address`.
const DEFAULT_URL: &str = "http://127.0.0.1:9403";

const URL_HELP: &str = "Admin URL of a gateway; repeat or separate with commas. A name with several \
    addresses, as that of a headless Service, all are asked [default: those of the variable EXTENDER_GATEWAYS, or \
    http://127.0.0.1:9403]";

/// Which gateways are asked.
#[derive(Debug, Args)]
#[command(next_help_heading = "Gateways")]
pub(super) struct GatewayOptions {
    #[arg(long = "gateway", value_name = "URL", value_delimiter = ',', help = URL_HELP)]
    urls: Vec<AdminUrl>,

    /// Query the gateway's pods in this namespace through the apiserver; works wherever kubectl does
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
}

/// The replicas to query, and those that could not be found.
pub(super) struct Gateways {
    places: Vec<AdminEndpoint>,
    lost: Vec<Away>,
}

/// How to reach one replica.
enum AdminEndpoint {
    /// Directly at this address, which belongs to the URL.
    Address(AdminUrl, std::net::SocketAddr),
    /// Through the apiserver.
    Pod(Client, PodPlace),
}

/// The answers of the replicas.
#[derive(Debug)]
pub(super) struct Gathered<T> {
    /// One for each replica that answered.
    pub(super) answers: Vec<T>,
    /// The gateways that did not answer.
    pub(super) away: Vec<Away>,
}

/// A gateway that did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Away {
    /// The address or pod that was queried.
    pub gateway: String,
    /// The cause and the remedy.
    pub why: String,
}

/// An answer that identifies its replica. Two processes on one machine have the same name.
pub(super) trait OfReplica {
    /// Changes the name.
    fn rename(&mut self, name: String);

    /// The replica's name, and when its decision log began.
    fn replica(&self) -> (&str, Timestamp);
}

impl OfReplica for DecisionList {
    fn rename(&mut self, name: String) {
        self.gateway = name;
    }

    fn replica(&self) -> (&str, Timestamp) {
        (&self.gateway, self.log.since)
    }
}

impl OfReplica for Status {
    fn rename(&mut self, name: String) {
        self.gateway = name;
    }

    fn replica(&self) -> (&str, Timestamp) {
        (&self.gateway, self.log.since)
    }
}

impl GatewayOptions {
    /// Whether the apiserver is needed to find the replicas.
    pub(super) fn needs_apiserver(&self) -> bool {
        self.gateway_namespace.is_some()
    }

    /// Finds the replicas.
    pub(super) async fn find(&self, way: &Way) -> Gateways {
        let mut gateways = Gateways { places: Vec::new(), lost: Vec::new() };
        let usual = std::env::var(USUAL).unwrap_or_default();
        let urls = self.urls(&usual).unwrap_or_else(|wrong| {
            gateways.lose(&USUAL, &Trouble::Url(wrong));
            Vec::new()
        });
        for url in urls {
            let found = url.addresses().await.map_err(Trouble::Name);
            gateways.add(&url, found, |address| AdminEndpoint::Address(url.clone(), address));
        }
        if let Some(selection) = self.selection() {
            match way {
                Way::Open(apiserver) => {
                    let found = selection.pods(&apiserver.client).await;
                    gateways.add(&selection, found, |pod| AdminEndpoint::Pod(apiserver.client.clone(), pod));
                }
                Way::Closed(why) => gateways.lose(&selection, &Trouble::Apiserver(why.clone())),
            }
        }
        gateways
    }

    /// The URLs to query; `usual` applies if the command line names none.
    fn urls(&self, usual: &str) -> Result<Vec<AdminUrl>, String> {
        if !self.urls.is_empty() || self.gateway_namespace.is_some() {
            return Ok(self.urls.clone());
        }
        let usual = if usual.is_empty() { DEFAULT_URL } else { usual };
        usual.split(',').map(str::parse).collect()
    }

    fn selection(&self) -> Option<Selection> {
        let namespace = self.gateway_namespace.clone()?;
        Some(Selection { namespace, labels: self.gateway_selector.clone(), port: self.admin_port })
    }
}

impl Gateways {
    fn add<P>(
        &mut self,
        what: &impl fmt::Display,
        found: Result<Vec<P>, Trouble>,
        place: impl FnMut(P) -> AdminEndpoint,
    ) {
        match found {
            Ok(found) => self.places.extend(found.into_iter().map(place)),
            Err(trouble) => self.lose(what, &trouble),
        }
    }

    fn lose(&mut self, what: &impl fmt::Display, trouble: &Trouble) {
        self.lost.push(Away { gateway: what.to_string(), why: trouble.to_string() });
    }

    /// Queries all replicas concurrently. A replica that is reached in two ways counts once.
    pub(super) async fn ask<T: DeserializeOwned + OfReplica>(&self, path: &str) -> Gathered<T> {
        let mut gathered = Gathered { answers: Vec::new(), away: self.lost.clone() };
        let asked = join_all(self.places.iter().map(|place| place.ask::<T>(path))).await;
        let mut places = Vec::new();
        for (place, answer) in self.places.iter().zip(asked) {
            match answer {
                Ok(answer) => {
                    if gathered.add(answer) {
                        places.push(place);
                    }
                }
                Err(trouble) => {
                    gathered.away.push(Away { gateway: place.to_string(), why: trouble.to_string() });
                }
            }
        }
        gathered.tell_apart(&places);
        gathered
    }
}

impl<T: OfReplica> Gathered<T> {
    /// Adds an answer. Returns whether its replica is new.
    fn add(&mut self, answer: T) -> bool {
        let new = !self.answers.iter().any(|other| other.replica() == answer.replica());
        if new {
            self.answers.push(answer);
        }
        new
    }

    /// Adds the queried address to the names of replicas with the same name, as on one machine.
    fn tell_apart(&mut self, places: &[&impl fmt::Display]) {
        let names: Vec<String> = self.answers.iter().map(|answer| answer.replica().0.to_owned()).collect();
        for ((answer, name), place) in self.answers.iter_mut().zip(&names).zip(places) {
            if names.iter().filter(|other| *other == name).count() > 1 {
                answer.rename(format!("{name} at {place}"));
            }
        }
    }
}

impl AdminEndpoint {
    async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, Trouble> {
        let body = match self {
            Self::Address(url, address) => request::direct(*address, &url.authority(), path).await?,
            Self::Pod(client, pod) => request::proxied(client, &pod.path(path)).await?,
        };
        serde_json::from_slice(&body).map_err(Trouble::Malformed)
    }
}

impl fmt::Display for AdminEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(url, address) if url.is(*address) => write!(f, "{url}"),
            Self::Address(url, address) => write!(f, "{url} ({})", address.ip()),
            Self::Pod(_, pod) => write!(f, "{pod}"),
        }
    }
}

#[cfg(test)]
mod tests;
