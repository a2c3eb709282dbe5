//! gRPC reflection, in both versions.

use std::sync::Arc;

use extender_policy_api::v1beta1::FILE_DESCRIPTOR_SET;
use tonic::transport::server::Router;
use tonic_reflection::server::Builder;

use super::in_progress::{Counting, Holds, Total};

/// Why building the service cannot fail.
const BUILT_IN: &str = "the descriptors are compiled in and valid; a test serves them";

/// The router with the services of both versions.
pub(super) fn added(router: Router, total: &Arc<Total>) -> Router {
    let reflection = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    router
        .add_service(Counting::new(reflection().build_v1().expect(BUILT_IN), Holds::UntilArrived, total))
        .add_service(Counting::new(reflection().build_v1alpha().expect(BUILT_IN), Holds::UntilArrived, total))
}
