//! `introspect`: what a backend shows of its state, or a node as backends are told about it.

use clap::Args;
use extender_gateway_object::text::clean;
use serde_json::Value;

use super::{
    admin::GatewayOptions,
    block_on,
    output::{Console, Failure, Output, PrettyJson},
};

/// The command's description.
pub(super) const ABOUT: &str = "Show what a backend knows, or what backends are told about a node.\n\n\
    Backends declare paths at which they show parts of their internal state, such as the quotas that they have counted. Without \
    a path, all paths are listed; a part after a colon is a parameter. The first gateway that has an answer is used, and asks one \
    replica of the backend, the leader of its controllers if one says that it leads.";

/// Examples.
pub(super) const EXAMPLES: &str = "\
Examples:
  extender-gateway introspect
  extender-gateway introspect nodes/node-01
  extender-gateway introspect plugins/quota/quotas/shop
  kubectl extender introspect 'plugins/quota/quotas?limit=10' --gateway-namespace extender-gateway -o yaml

Exit codes:
  0  success
  1  cannot write the output
  2  usage error
  5  no gateway has an answer";

/// What precedes all paths.
const BASE: &str = "/apis/v1/";
/// The list of them.
const LIST: &str = "__services__";

/// The command's options.
#[derive(Debug, Args)]
pub(super) struct IntrospectOptions {
    /// A path as listed, with values in place of the parts after colons; characters that are special in URLs are
    /// percent-encoded [default: list all]
    #[arg(value_name = "PATH", value_parser = path)]
    path: Option<String>,

    /// Output format; a table is indented JSON
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,

    #[command(flatten)]
    gateways: GatewayOptions,
}

/// A path below [`BASE`]: also with what precedes it, as the list of the admin address has it.
fn path(text: &str) -> Result<String, String> {
    let path = text.strip_prefix(BASE).unwrap_or(text).trim_start_matches('/');
    let is_usual = |byte: u8| byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte);
    if path.is_empty() || !path.bytes().all(is_usual) {
        return Err("expected a path such as plugins/quota/quotas/shop, percent-encoded".to_owned());
    }
    if path.split('/').any(|segment| segment.starts_with(':')) {
        return Err("put a value in place of each part after a colon".to_owned());
    }
    Ok(path.to_owned())
}

/// Prints it.
pub(super) fn run(options: &IntrospectOptions, console: &mut Console<'_>) -> Result<(), Failure> {
    let shown = block_on(options.query())??;
    match (&options.path, options.output) {
        (None, Output::Table) => write!(console.out, "{}", listed(&shown))?,
        (_, output) => output.write(&PrettyJson(&shown), console)?,
    }
    Ok(())
}

impl IntrospectOptions {
    async fn query(&self) -> Result<Value, Failure> {
        let path = format!("{BASE}{}", self.path.as_deref().unwrap_or(LIST));
        self.gateways.reach().await?.first(&path).await.map_err(Failure::NotShown)
    }
}

/// The paths, a line each, without what precedes all of them.
fn listed(services: &Value) -> String {
    let paths = services["GET"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let paths = paths.map(|path| path.strip_prefix(BASE).unwrap_or(path)).filter(|path| *path != LIST);
    paths.fold(String::new(), |lines, path| lines + &clean(path) + "\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_those_of_the_list_with_values() {
        for (text, expected) in [
            ("nodes/node-01", Ok("nodes/node-01")),
            ("/apis/v1/plugins/quota/quotas?limit=1", Ok("plugins/quota/quotas?limit=1")),
            ("/plugins/quota/a%2Fb", Ok("plugins/quota/a%2Fb")),
            ("", Err("expected a path such as plugins/quota/quotas/shop, percent-encoded")),
            ("/", Err("expected a path such as plugins/quota/quotas/shop, percent-encoded")),
            ("nodes/a b", Err("expected a path such as plugins/quota/quotas/shop, percent-encoded")),
            ("nodes/ä", Err("expected a path such as plugins/quota/quotas/shop, percent-encoded")),
            ("nodes/:nodeName", Err("put a value in place of each part after a colon")),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(path(text), expected, "{text}");
        }
    }

    #[test]
    fn the_list_is_short() {
        let services = json!({"GET": ["/apis/v1/__services__", "/apis/v1/nodes/:nodeName", "/apis/v1/plugins/a/\u{1b}x"]});
        assert_eq!(listed(&services), "nodes/:nodeName\nplugins/a/\\u{1b}x\n");
        assert_eq!(listed(&json!([])), "");
    }

    #[test]
    fn what_a_backend_shows_cannot_change_the_terminal() {
        let shown = PrettyJson(&json!({"a": "\u{1b}[31m\u{202e}", "b": [1]})).to_string();
        assert!(
            !shown.contains('\u{1b}') && !shown.contains('\u{202e}') && shown.lines().count() == 6,
            "{shown}"
        );
    }
}
