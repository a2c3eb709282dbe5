//! The client of the apiserver that the tasks of the second thread share.

use std::path::PathBuf;

use extender_apiserver::ConnectError;
use kube::Client;
use tokio::sync::OnceCell;

/// A client that is created when it is first needed. One for all, because each may run a program for its credentials.
pub struct SharedClient {
    kubeconfig: Option<PathBuf>,
    client: OnceCell<Client>,
}

impl SharedClient {
    /// A client by this kubeconfig; `None` stands for the default one.
    pub fn new(kubeconfig: Option<PathBuf>) -> Self {
        Self { kubeconfig, client: OnceCell::new() }
    }

    /// The client.
    ///
    /// # Errors
    /// There is no apiserver, or its settings cannot be used. The next call tries again.
    pub async fn get(&self) -> Result<Client, ConnectError> {
        let connected =
            self.client.get_or_try_init(|| extender_apiserver::connect(self.kubeconfig.as_deref()));
        connected.await.cloned()
    }
}

impl From<Client> for SharedClient {
    fn from(client: Client) -> Self {
        Self { kubeconfig: None, client: OnceCell::new_with(Some(client)) }
    }
}

impl std::fmt::Debug for SharedClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedClient").field("kubeconfig", &self.kubeconfig).finish_non_exhaustive()
    }
}
