//! Backends whose host resolves to several addresses.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use extender_gateway_api::Status;
use extender_gateway_backend::resolver::Resolve;
use extender_gateway_pace::cadences::Cadences;
use futures_util::{FutureExt, future::BoxFuture};
use prost::Message;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use crate::support::{
    Gateway,
    admin::Admin,
    backend::{Act, Scripted, filtered, info},
    eager, ended,
    function::{Function, about, labelled, pure, sibling},
    reading, until,
};

/// What every host resolves to; an error if that is nothing.
#[derive(Debug, Default)]
pub(crate) struct Hosts(Mutex<Vec<SocketAddr>>);

impl Hosts {
    pub(crate) fn of(backends: &[&Scripted]) -> Arc<Self> {
        let hosts = Arc::new(Self::default());
        hosts.set(backends);
        hosts
    }

    pub(crate) fn set(&self, backends: &[&Scripted]) {
        *self.0.lock().unwrap() = backends.iter().map(|backend| backend.address).collect();
    }
}

impl Resolve for Hosts {
    fn resolve<'r>(&'r self, _: &'r str, _: u16) -> BoxFuture<'r, io::Result<Vec<SocketAddr>>> {
        let addresses = self.0.lock().unwrap().clone();
        let found = if addresses.is_empty() { Err(io::Error::other("lookup failed")) } else { Ok(addresses) };
        async { found }.boxed()
    }
}

/// Hosts are resolved all the time.
pub(crate) fn resolving() -> Cadences {
    Cadences { resolve: Duration::from_millis(10), ..eager() }
}

/// Hosts are resolved when a connection has ended.
fn resolving_when_lost() -> Cadences {
    Cadences { resolve: Duration::from_hours(1), ..eager() }
}

/// A gateway in front of one backend with these addresses, all of which are connected.
pub(crate) async fn before(hosts: &Arc<Hosts>, cadences: Cadences, verbs: &str) -> (Gateway, Admin) {
    let backends = format!("- {{name: racks, url: 'http://racks.test:9000', {verbs}}}\n");
    let rest = format!("nodes: {{source: Request}}\ntimeouts: {{decision: 60s}}\nbackends:\n{backends}");
    let resolver = Arc::clone(hosts);
    let gateway = Gateway::start_resolving(&rest, cadences, resolver).await;
    let admin = Admin::of(&gateway).await;
    let count = hosts.0.lock().unwrap().len();
    connected(admin, count).await;
    (gateway, admin)
}

pub(crate) async fn status(admin: Admin) -> Status {
    serde_json::from_slice(&admin.send("GET", "/debug/status", "").await.body).unwrap()
}

/// Waits until exactly these addresses of the backend are in use, and connected. One has no table.
pub(crate) async fn connected(admin: Admin, count: usize) {
    let all = async {
        loop {
            let backend = status(admin).await.backends.remove(0);
            let addresses = &backend.addresses;
            let number = if backend.connected { addresses.len().max(1) } else { 0 };
            if number == count && addresses.iter().all(|address| address.connected) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    ended("not all addresses are connected", all).await;
}

pub(crate) async fn filter(gateway: &Gateway, pod: u32) -> Value {
    gateway.post("/filter", of_pod(pod)).await.json()
}

fn of_pod(pod: u32) -> String {
    let pod = json!({"metadata": {"name": "web", "namespace": "shop", "uid": format!("u-{pod}")}});
    json!({"Pod": pod, "Nodes": null, "NodeNames": ["a", "b"]}).to_string()
}

pub(crate) fn calls(backend: &Scripted) -> usize {
    backend.messages("Filter").len()
}

#[tokio::test]
async fn pods_are_spread_over_the_addresses_and_each_pod_stays_at_one() {
    let backends = [Scripted::refusing(&["a"], "no", 0).await, Scripted::refusing(&["a"], "no", 0).await];
    let (gateway, admin) = before(&Hosts::of(&[&backends[0], &backends[1]]), resolving(), "filter: {}").await;
    for pod in 0..20 {
        let counts = || [calls(&backends[0]), calls(&backends[1])];
        let before = counts();
        for _ in 0..3 {
            assert_eq!(filter(&gateway, pod).await["NodeNames"], json!(["b"]));
        }
        let more: Vec<_> = counts().iter().zip(before).map(|(now, before)| now - before).collect();
        assert!(more == [3, 0] || more == [0, 3], "{more:?}");
    }
    assert!(backends.iter().all(|backend| calls(backend) > 0));
    let backend = status(admin).await.backends.remove(0);
    assert_eq!((backend.addresses.len(), backend.outages), (2, 0));
}

#[tokio::test]
async fn a_call_goes_to_the_less_loaded_address() {
    let permits = Arc::new(Semaphore::new(0));
    let slow = || {
        let permits = Arc::clone(&permits);
        Scripted::start(info(reading::names()), move |_, message| {
            Act::After(Arc::clone(&permits), filtered(&message, &["a"], "no").encode_to_vec())
        })
    };
    let backends = [slow().await, slow().await];
    let (gateway, admin) = before(&Hosts::of(&[&backends[0], &backends[1]]), resolving(), "filter: {}").await;
    let all = futures_util::future::join_all((0..10).map(|_| filter(&gateway, 7)));
    let release = async {
        until("10 calls", || calls(&backends[0]) + calls(&backends[1]) >= 10).await;
        assert_eq!((calls(&backends[0]), calls(&backends[1])), (5, 5), "of one pod, by load");
        let addresses = status(admin).await.backends.remove(0).addresses;
        assert!(addresses.iter().all(|address| address.calls == 5), "{addresses:?}");
        permits.add_permits(10);
    };
    let (answers, ()) = tokio::join!(all, release);
    assert!(answers.iter().all(|answer| answer["NodeNames"] == json!(["b"])));
}

#[tokio::test]
async fn an_address_with_an_open_breaker_is_left_out() {
    let (late, other) = (Scripted::always(Act::Hang).await, Scripted::refusing(&["a"], "no", 0).await);
    let hosts = Hosts::of(&[&late, &other]);
    let (gateway, admin) = before(&hosts, resolving(), "filter: {timeout: 150ms}").await;
    let mut pod = 0;
    while calls(&late) < 5 {
        filter(&gateway, pod).await;
        pod += 1;
    }
    for pod in 0..20 {
        assert_eq!(filter(&gateway, pod).await["NodeNames"], json!(["b"]));
    }
    assert_eq!(calls(&late), 5);
    let circuits = status(admin).await.backends.remove(0).verbs.remove(0).circuits;
    assert_eq!(circuits.len(), 1);
    assert_eq!(circuits[0].address, late.address.to_string());
    hosts.set(&[&late]);
    connected(admin, 1).await;
    let error = filter(&gateway, 0).await["Error"].as_str().unwrap().to_owned();
    assert!(error.ends_with("no answer within 150 ms"), "{error}");
    assert_eq!(calls(&late), 5, "there is no other, and it is not asked");
}

#[tokio::test]
async fn an_address_that_is_gone_finishes_its_calls_and_gets_no_new_ones() {
    let permits = Arc::new(Semaphore::new(0));
    let script = Arc::clone(&permits);
    let old = Scripted::start(info(reading::names()), move |_, message| {
        Act::After(Arc::clone(&script), filtered(&message, &["a"], "no").encode_to_vec())
    })
    .await;
    let new = Scripted::refusing(&["b"], "no", 0).await;
    let hosts = Hosts::of(&[&old]);
    let (gateway, admin) = before(&hosts, resolving(), "filter: {}").await;
    let replaced = async {
        until("the call", || calls(&old) == 1).await;
        hosts.set(&[&new]);
        // Both, until the new one has a session; calls to the old one would wait.
        until("the new one", || !new.messages("GetInfo").is_empty()).await;
        connected(admin, 1).await;
        assert_eq!(filter(&gateway, 1).await["NodeNames"], json!(["a"]));
        permits.add_permits(100);
    };
    let (answer, ()) = tokio::join!(filter(&gateway, 0), replaced);
    assert_eq!(answer["NodeNames"], json!(["b"]), "the old one answered");
    let calls_of_old = calls(&old);
    for pod in 0..10 {
        assert_eq!(filter(&gateway, pod).await["NodeNames"], json!(["a"]));
    }
    assert_eq!(calls(&old), calls_of_old);
    assert_eq!(status(admin).await.backends[0].outages, 0);
}

#[tokio::test]
async fn after_a_lost_connection_the_host_is_resolved_at_once() {
    let (drops, dropping) = watch::channel(false);
    let old = Scripted::start(info(reading::names()), move |_, message| {
        if *dropping.borrow() {
            return Act::Drop;
        }
        Act::Message(filtered(&message, &["a"], "no").encode_to_vec())
    })
    .await;
    let new = Scripted::refusing(&["b"], "no", 0).await;
    let hosts = Hosts::of(&[&old]);
    let (gateway, _) = before(&hosts, resolving_when_lost(), "filter: {}").await;
    hosts.set(&[&new]);
    assert_eq!(filter(&gateway, 0).await["NodeNames"], json!(["b"]), "it is not resolved yet");
    drops.send_replace(true);
    let is_new = async { while filter(&gateway, 0).await["NodeNames"] != json!(["a"]) {} };
    ended("the new one is not called", is_new).await;
}

#[tokio::test]
async fn while_the_host_cannot_be_resolved_known_addresses_stay_in_use() {
    let backend = Scripted::refusing(&["a"], "no", 0).await;
    let hosts = Hosts::of(&[]);
    let rest =
        "nodes: {source: Request}\nbackends: [{name: racks, url: 'http://racks.test:9000', filter: {}}]\n";
    let resolver = Arc::clone(&hosts);
    let gateway = Gateway::start_resolving(rest, resolving(), resolver).await;
    let error = filter(&gateway, 0).await["Error"].as_str().unwrap().to_owned();
    assert!(error.ends_with("cannot connect to racks.test:9000: lookup failed"), "{error}");
    hosts.set(&[&backend]);
    let admin = Admin::of(&gateway).await;
    connected(admin, 1).await;
    hosts.set(&[]);
    let handshakes = backend.messages("GetInfo").len();
    until("handshakes", || backend.messages("GetInfo").len() > handshakes + 5).await;
    assert_eq!(filter(&gateway, 0).await["NodeNames"], json!(["b"]));
}

#[tokio::test]
async fn addresses_share_answers_only_if_their_handshakes_are_equal() {
    for (revision, asked) in [("r1", 1), ("r2", 2)] {
        let one = Function::start(pure(reading::facts())).await;
        let mut other = pure(reading::facts());
        other.revision = revision.into();
        let other = Function::start(other).await;
        let hosts = Hosts::of(&[&one.backend, &other.backend]);
        let (gateway, _) = before(&hosts, resolving(), "filter: {}").await;
        let names = ["a", "b"];
        let items: Vec<Value> = names
            .iter()
            .map(|name| serde_json::from_str(&labelled(name, &json!({"score": "3"}))).unwrap())
            .collect();
        // Enough pods that both addresses have some.
        for pod in 0..16 {
            let mut body: Value = serde_json::from_str(&about(&sibling(pod), &names)).unwrap();
            body["Nodes"] = json!({"metadata": {}, "items": items});
            body["NodeNames"] = Value::Null;
            let answer = gateway.post("/filter", body.to_string()).await.json();
            assert_eq!(answer["Error"], "", "{answer}");
        }
        assert_eq!(calls(&one.backend) + calls(&other.backend), asked, "{revision}");
    }
}
