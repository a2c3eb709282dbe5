//! What policies show of a node: at each path that ends with `/nodes/:NAME` and has no other parameter.

use std::fmt;

use extender_gateway_api::explain::replicas::Away;
use extender_gateway_object::text::clean;
use futures_util::future::join_all;
use serde::Serialize;
use serde_json::Value;

use crate::{admin::Gateways, output::PrettyJson};

/// What precedes all paths of policies.
const PLUGINS: &str = "/apis/v1/plugins/";
/// The list of all paths.
const LIST: &str = "/apis/v1/__services__";
/// The most pages that are shown. Policies choose their number.
const MOST_PAGES: usize = 16;

/// What a policy shows of a node.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyPage {
    /// Without what precedes all paths, such as `quota/nodes/node-7`.
    path: String,
    /// What is there; absent if no gateway has an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<Value>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// What policies show of this node.
pub(super) async fn of_node(gateways: &Gateways, node: Option<&str>) -> Vec<PolicyPage> {
    let Some(node) = node else { return Vec::new() };
    // Without the list, the tables say what is wrong.
    let Ok(services) = gateways.first(LIST).await else { return Vec::new() };
    let pages = paths(&services, node).into_iter().map(async |path| {
        let answer = gateways.first(&format!("{PLUGINS}{path}")).await;
        let failure = |away: Vec<Away>| {
            away.into_iter()
                .map(|Away { gateway, why }| format!("{gateway}: {why}"))
                .collect::<Vec<_>>()
                .join("; ")
        };
        match answer {
            Ok(shown) => PolicyPage { path, shown: Some(shown), failure: None },
            Err(away) => PolicyPage { path, shown: None, failure: Some(failure(away)) },
        }
    });
    join_all(pages).await
}

/// The paths about a node, with its name in place of the parameter.
fn paths(services: &Value, node: &str) -> Vec<String> {
    let all = services["GET"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let of_policies = all.filter_map(|path| path.strip_prefix(PLUGINS));
    let about_nodes = of_policies.filter_map(|path| {
        let (before, parameter) = path.rsplit_once('/')?;
        let is_only = parameter.starts_with(':') && !before.contains("/:");
        (is_only && before.ends_with("/nodes")).then(|| format!("{before}/{node}"))
    });
    about_nodes.take(MOST_PAGES).collect()
}

impl fmt::Display for PolicyPage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "plugins/{}:", clean(&self.path))?;
        if let Some(failure) = &self.failure {
            return writeln!(out, "{}", clean(failure));
        }
        PrettyJson(&self.shown).fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_about_a_node_have_no_other_parameter() {
        let services = json!({"GET": [
            "/apis/v1/nodes/:nodeName",
            "/apis/v1/plugins/quota/quotas/:namespace",
            "/apis/v1/plugins/quota/nodes/:node",
            "/apis/v1/plugins/quota/:kind/nodes/:node",
            "/apis/v1/plugins/room/reserved/nodes/:name",
            "/apis/v1/plugins/room/nodes",
        ]});
        assert_eq!(paths(&services, "node-7"), ["quota/nodes/node-7", "room/reserved/nodes/node-7"]);
        assert_eq!(paths(&json!([]), "node-7"), [""; 0]);
    }

    #[test]
    fn what_a_policy_shows_cannot_change_the_terminal() {
        let page = |shown, failure| PolicyPage { path: "quota/nodes/a".to_owned(), shown, failure };
        let shown = page(Some(json!({"free": "\u{1b}[31m"})), None).to_string();
        assert_eq!(shown, "plugins/quota/nodes/a:\n{\n  \"free\": \"\\u001b[31m\"\n}\n");
        let failed = page(None, Some("quota is away\u{1b}".to_owned())).to_string();
        assert_eq!(failed, "plugins/quota/nodes/a:\nquota is away\\u{1b}\n");
    }
}
