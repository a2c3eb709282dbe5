//! The extender gateway: kube-scheduler's HTTP/JSON extender calls in, gRPC policy backends out.
//!
//! A call passes through [`door`] → [`wire`] → [`decide`] (which drives `extender-gateway-core`) → [`backend`] and
//! back. [`object`] parses Kubernetes objects, [`contract`] has the questions and answers of the policy API, [`cluster`]
//! keeps the node and pod tables, [`config`] the operator's configuration, [`record`] what happened in a call, [`observe`]
//! makes logs, metrics and traces of it, [`admin`] serves them, [`serve`] puts all of it together, and [`cli`] has the
//! commands. Each is a crate of its own, and this one the program: a change of a command does not compile the path of a call.

pub use extender_gateway_admin as admin;
pub use extender_gateway_api as api;
pub use extender_gateway_backend as backend;
pub use extender_gateway_cli as cli;
pub use extender_gateway_cluster as cluster;
pub use extender_gateway_contract as contract;
pub use extender_gateway_decide as decide;
pub use extender_gateway_door as door;
pub use extender_gateway_object as object;
pub use extender_gateway_observe as observe;
pub use extender_gateway_pace::{cadences, fair_queue};
pub use extender_gateway_record as record;
pub use extender_gateway_scheduler_config as scheduler_config;
pub use extender_gateway_serve as serve;
pub use extender_gateway_settings as config;
pub use extender_gateway_tls as tls;
pub use extender_gateway_wire as wire;
