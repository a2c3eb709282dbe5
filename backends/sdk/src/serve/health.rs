//! The standard health service: for the process ("") and for `PolicyService` by its name.

use extender_policy_api::v1alpha1::policy_service_server::SERVICE_NAME;
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};

/// The health of the server.
const SERVICES: [&str; 2] = ["", SERVICE_NAME];

pub(super) struct Health {
    reporter: HealthReporter,
}

impl Health {
    /// Reports all services as serving.
    pub(super) async fn new() -> Self {
        let reporter = HealthReporter::new();
        for service in SERVICES {
            reporter.set_service_status(service, ServingStatus::Serving).await;
        }
        Self { reporter }
    }

    pub(super) fn service(&self) -> HealthServer<HealthService> {
        HealthServer::new(HealthService::from_health_reporter(self.reporter.clone()))
    }

    /// Watchers get `NOT_SERVING`, and then the end of their stream: an open one would delay draining until its
    /// limit.
    pub(super) async fn stop(mut self) {
        for service in SERVICES {
            self.reporter.set_service_status(service, ServingStatus::NotServing).await;
            self.reporter.clear_service_status(service).await;
        }
    }
}
