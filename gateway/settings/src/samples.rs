//! Configurations for tests.

#![expect(clippy::panic, reason = "samples that cannot be made are failures of tests")]

use std::path::Path;

use crate::{Config, VerbPaths};

impl Default for VerbPaths {
    fn default() -> Self {
        let [filter, prioritize, preempt, bind] =
            ["filter", "prioritize", "preempt", "bind"].map(str::to_owned);
        Self { filter, prioritize, preempt, bind }
    }
}

/// A configuration with these backends.
pub fn config(backends: &str) -> Config {
    let local = if backends.contains("extender:") { "" } else { "extender: {address: '127.0.0.1:8888'}\n" };
    let head = format!(
        "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\nnodes: {{source: NamesOnly}}\n{local}"
    );
    Config::parse(&format!("{head}backends:\n{backends}"), Path::new("."))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
}
