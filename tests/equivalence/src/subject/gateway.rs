//! A running gateway: the real door on a port of its own, in front of what the configuration says.

use std::{path::Path, sync::Arc};

use extender_gateway::{
    cluster::file::NodeFile,
    config::{Config, NodeSource},
    door::{self, Door},
    observe::Metrics,
    serve::assembly::Assembly,
};
use tokio::net::TcpListener;

use super::{
    client::{Answer, Client},
    objects,
};

/// A gateway with one source of nodes and one of pods. It runs in the test's own runtime.
pub(super) struct Gateway {
    assembly: Assembly,
    door: Arc<Door>,
    client: Client,
}

impl Gateway {
    pub(super) async fn start(text: &str) -> Self {
        let config = read(text);
        let metrics = Arc::new(Metrics::new());
        let mut assembly = Assembly::new(&config, "equivalence".into(), Arc::clone(&metrics));
        if let (NodeSource::File { path }, Some(table)) = (&config.nodes, assembly.table()) {
            let file = NodeFile::open(path.clone(), &table).expect("it was written for this");
            tokio::spawn(async move { file.follow(table).await });
        }
        if let Some(pods) = assembly.pods() {
            for pod in objects::watched_pods() {
                pods.apply(pod.to_string().as_bytes()).expect("it is a pod");
            }
        }
        let served = assembly.serve(&config).await.expect("nobody binds, so no apiserver is needed");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        let door = Arc::new(Door::new(served, metrics));
        tokio::spawn(door::serve(listener, Arc::clone(&door), std::future::pending()));
        Self { assembly, door, client: Client::connect(address).await }
    }

    /// Takes another configuration, as a reload does.
    pub(super) async fn configure(&mut self, text: &str) {
        let served = self.assembly.serve(&read(text)).await;
        let served = served.expect("nobody binds, so no apiserver is needed");
        self.door.served.store(Arc::new(served));
    }

    pub(super) async fn post(&mut self, path: &str, body: String) -> Answer {
        self.client.post(path, body).await
    }
}

fn read(text: &str) -> Config {
    Config::parse(text, Path::new(".")).unwrap_or_else(|mistakes| unreachable!("{mistakes}\n{text}"))
}
