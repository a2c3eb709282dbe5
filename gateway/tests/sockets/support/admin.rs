//! The admin address of a gateway in the test's own runtime.

use std::{net::SocketAddr, sync::Arc};

use extender_gateway_admin::{
    self as admin, AdminState as Shown,
    status::{GatewayStatus, StatusSources},
};
use extender_gateway_api::{Decision, DecisionList};
use extender_gateway_observe::Health;
use extender_gateway_settings::NodeSource;
use tokio::net::TcpListener;

use super::{
    Gateway,
    http::{Answer, Client},
    until,
};

/// Where it listens.
#[derive(Clone, Copy)]
pub(crate) struct Admin(pub(crate) SocketAddr);

impl Admin {
    /// That of this gateway.
    pub(crate) async fn of(gateway: &Gateway) -> Self {
        let standing = GatewayStatus::new(StatusSources {
            gateway: "test".into(),
            file: "gateway.yaml".to_owned(),
            source: NodeSource::NamesOnly,
            table: Some(Arc::clone(&gateway.table)),
            pods: Arc::default(),
            health: Arc::new(Health::default()),
            exempt: std::collections::BTreeSet::new(),
            certificates: Arc::default(),
        });
        standing.open(&gateway.door);
        let shown =
            Shown::new(Arc::clone(&gateway.observer), Arc::new(standing), std::collections::BTreeSet::new());
        let routes = admin::routes(Arc::new(shown), |routes| routes);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self(address)
    }

    pub(crate) async fn send(self, method: &str, path: &str, body: impl AsRef<[u8]>) -> Answer {
        Client::connect(self.0).await.send(method, path, body.as_ref()).await
    }

    /// The calls that match these parameters.
    pub(crate) async fn decisions(self, query: &str) -> DecisionList {
        let answer = self.send("GET", &format!("/debug/decisions{query}"), "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// The status and the text of an error response.
    pub(crate) async fn refused(self, path: &str) -> (u16, String) {
        let answer = self.send("GET", path, "").await;
        let json = answer.json();
        assert_eq!(json.as_object().unwrap().len(), 1, "{json}");
        (answer.status, json["error"].as_str().unwrap().to_owned())
    }
}

/// A gateway and its admin address.
pub(crate) struct Seen {
    pub(crate) gateway: Gateway,
    pub(crate) admin: Admin,
}

impl Seen {
    /// Starts one with the `nodes` and `backends` of a configuration; backends have a minute for their answers.
    pub(crate) async fn start(rest: &str) -> Self {
        Self::with(Gateway::start(&format!("timeouts: {{decision: 60s}}\n{rest}")).await).await
    }

    pub(crate) async fn with(gateway: Gateway) -> Self {
        Self { admin: Admin::of(&gateway).await, gateway }
    }

    /// Waits until the log has this many calls, including shadow calls: they are recorded after their responses.
    pub(crate) async fn settled(&self, count: u64) {
        let log = &self.gateway.observer.decisions;
        until(&format!("{count} calls do not come"), || log.state().calls >= count).await;
    }

    /// The latest calls, the newest first, once there are this many.
    pub(crate) async fn calls(&self, count: u64) -> Vec<Decision> {
        self.settled(count).await;
        self.admin.decisions("").await.items
    }

    /// The latest call, once there are this many.
    pub(crate) async fn call(&self, count: u64) -> Decision {
        self.calls(count).await.remove(0)
    }
}
