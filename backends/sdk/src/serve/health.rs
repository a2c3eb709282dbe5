//! The standard health service: for the process (""), for `PolicyService` by its name and, if there are controllers,
//! for `Controllers`.

use std::convert::Infallible;

use extender_policy_api::v1beta1::policy_service_server::SERVICE_NAME;
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};

use crate::ControllersReport;

/// The health of the server.
const SERVICES: [&str; 2] = ["", SERVICE_NAME];

/// Serving in the replica that runs the controllers, and not serving in the others. Not a service that is called.
const CONTROLLERS: &str = "extender.policy.v1beta1.Controllers";

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

    /// Reports whether this replica runs the controllers.
    pub(super) async fn follow(&self, controllers: &ControllersReport) -> Infallible {
        let mut leads = false;
        loop {
            let status = if leads { ServingStatus::Serving } else { ServingStatus::NotServing };
            self.reporter.set_service_status(CONTROLLERS, status).await;
            controllers.changed(leads).await;
            leads = !leads;
        }
    }

    /// Watchers get `NOT_SERVING`, and then the end of their stream: an open one would delay draining until its
    /// limit.
    pub(super) async fn stop(mut self, controllers: Option<&ControllersReport>) {
        for service in SERVICES.into_iter().chain(controllers.map(|_| CONTROLLERS)) {
            self.reporter.set_service_status(service, ServingStatus::NotServing).await;
            self.reporter.clear_service_status(service).await;
        }
    }
}
