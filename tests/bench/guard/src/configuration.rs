//! The gateway's configuration.

use std::{net::SocketAddr, time::Duration};

use extender_harness::gateway::{Backend, Configuration, NodeSource, Observability};

use crate::peers::BACKENDS;

/// No part of a passing test takes this long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// The backends in their order; ports from the kernel.
pub(crate) fn configuration(nodes: NodeSource, backends: [SocketAddr; BACKENDS]) -> Configuration {
    let name = ["rack", "quota", "zone"];
    let backend = |at: usize| Backend { name: name[at].to_owned(), address: backends[at], weight: 1 };
    let backends = (0..BACKENDS).map(backend).collect();
    // With the decision log and without traces, the most common setup.
    let observability = Observability::AsItComes;
    Configuration { address: ([127, 0, 0, 1], 0).into(), nodes, backends, timeout: TIMEOUT, observability }
}
