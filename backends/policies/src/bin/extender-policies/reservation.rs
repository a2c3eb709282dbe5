//! Serves `reservation` as a policy backend, with its controller.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use extender_apiserver::ClientTimeouts;
use extender_policies::program::{self, Listen};
use extender_policy_controllers::{Controllers, LeaseName};
use extender_policy_sdk::{Backend, serve};
use extender_reservation::Reservations;
use kube::Config;

use crate::apiserver;

/// Reserves room on nodes for pods that come later, with the API object Reservation.
///
/// Tells other policies that reserved room is used, except by the pods that own it, and binds these. Its controller runs in
/// one of several replicas, the holder of a Lease. Prints `listening on ADDRESS` when it is ready.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReservationArguments {
    /// How the apiserver is reached [default: KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of the Lease [default: that of the pod]
    #[arg(long, value_name = "NAMESPACE")]
    lease_namespace: Option<String>,
    /// Name of the Lease, for which all replicas compete
    #[arg(long, value_name = "NAME", default_value = "extender-reservation")]
    lease_name: String,
    /// This replica's name as the holder of the Lease [default: the pod's name with a random suffix]
    #[arg(long, value_name = "NAME")]
    identity: Option<String>,
    /// Image of the containers of placeholder pods, which are never started
    #[arg(long, value_name = "IMAGE", default_value = "registry.k8s.io/pause:3.10")]
    placeholder_image: String,
    /// Name of the policy in its handshake, 1 to 63 bytes
    #[arg(long, default_value = "reservation", value_parser = program::name)]
    name: String,
    #[command(flatten)]
    listen: Listen,
}

const EXAMPLES: &str = "\
Examples:
  extender-policies reservation --kubeconfig ~/.kube/config --lease-namespace extender-gateway
  extender-policies reservation --address 0.0.0.0:9000 --tls-cert tls.crt --tls-key tls.key --tls-client-ca ca.crt

Exit codes: 0 stopped by a signal, 1 failed to start or a controller failed, 2 usage error or invalid kubeconfig.";

impl ReservationArguments {
    /// Serves until a signal stops it.
    pub(crate) fn run(self) -> ExitCode {
        apiserver::run(serve_reservations(self))
    }

    fn controllers(&self, config: Config) -> Controllers {
        let lease = match &self.lease_namespace {
            Some(namespace) => LeaseName::new(namespace, &self.lease_name),
            None => LeaseName::in_own_namespace(&self.lease_name),
        };
        let controllers = Controllers::new(lease).apiserver(config);
        match &self.identity {
            Some(identity) => controllers.identity(identity),
            None => controllers,
        }
    }
}

async fn serve_reservations(arguments: ReservationArguments) -> Result<(), apiserver::Error> {
    let config = extender_apiserver::config(arguments.kubeconfig.as_deref(), None).await?;
    let client = extender_apiserver::client(config.clone(), ClientTimeouts::default()).await?;
    let controllers = arguments.controllers(config);
    let ReservationArguments { name, listen, placeholder_image, .. } = arguments;
    let (policy, upkeep) = Reservations::new(&name, client.clone());
    let backend =
        Backend::from(policy).with_controllers(upkeep.clone().controlled_by(controllers, placeholder_image));
    tokio::select! {
        served = serve(backend, program::options(&name, listen)) => Ok(served?),
        never = upkeep.watch(client) => match never {},
    }
}
