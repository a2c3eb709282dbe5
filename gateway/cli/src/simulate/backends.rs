//! The backends of the command line, as if a configuration had them.

use std::{path::Path, time::Duration};

use extender_gateway_backend::{RpcError, handshake::preflight, info::Handshake};
use extender_gateway_core::PolicyVerb;
use extender_gateway_settings::{API_VERSION, BackendName, BackendSettings, BackendUrl, Config, KIND};
use extender_policy_api::v1beta1::{GetInfoResponse, Verb};
use futures_util::future::join_all;
use http::uri::Scheme;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use crate::output::Failure;

/// The time between two handshakes.
const PAUSE: Duration = Duration::from_millis(100);

/// The value of `--backend`.
#[derive(Debug, Clone)]
pub(super) struct NamedUrl {
    name: Option<BackendName>,
    url: BackendUrl,
}

impl NamedUrl {
    /// Whether a backend of this name and URL is this one.
    pub(super) fn is(&self, name: &str, url: &str) -> bool {
        self.url.to_string() == url && self.name.as_ref().is_none_or(|own| own.as_str() == name)
    }

    /// Whether the command line names it.
    pub(super) fn has_name(&self) -> bool {
        self.name.is_some()
    }
}

/// The value of `--args`.
#[derive(Debug, Clone)]
pub(super) struct NamedArgs {
    name: Option<BackendName>,
    args: Map<String, Value>,
}

/// Parses `[NAME=]URL`.
pub(super) fn url(text: &str) -> Result<NamedUrl, String> {
    let (name, url) = named(text, |text| text.starts_with("http://") || text.starts_with("https://"))?;
    let url = BackendUrl::new(url)
        .map_err(|wrong| format!("{wrong}; expected http://HOST:PORT such as http://127.0.0.1:9000"))?;
    if *url.scheme() == Scheme::HTTPS {
        return Err(
            "TLS needs files; describe this backend in a configuration, and name it with --config".to_owned()
        );
    }
    Ok(NamedUrl { name, url })
}

/// Parses `[NAME=]JSON`.
pub(super) fn args(text: &str) -> Result<NamedArgs, String> {
    let (name, json) = named(text, |text| text.starts_with('{'))?;
    let args = serde_json::from_str(json)
        .map_err(|wrong| format!("not a JSON object: {wrong}; expected such as '{{\"label\": \"rack\"}}'"))?;
    Ok(NamedArgs { name, args })
}

/// The name in front of a value.
fn named(text: &str, is_value: impl Fn(&str) -> bool) -> Result<(Option<BackendName>, &str), String> {
    match text.trim_start().split_once('=').filter(|_| !is_value(text.trim_start())) {
        None => Ok((None, text)),
        Some((name, value)) => Ok((Some(BackendName::new(name)?), value)),
    }
}

/// Adds backends to a configuration; without one, to an empty one. A backend is called for filter and score as far as it
/// serves them, and for both if it does not answer: its failure is a part of the decision.
pub(super) async fn with_added(
    configured: Option<Config>,
    urls: &[NamedUrl],
    args: &[NamedArgs],
    until: Instant,
) -> Result<Config, Failure> {
    let Some(added) = parsed(urls, args)? else {
        // One of both is required.
        return configured.ok_or_else(|| Failure::Usage("name a --config or a --backend".to_owned()));
    };
    let answers = join_all(added.backends.iter().map(|settings| asked_until(settings, until))).await;
    let mut config = configured.unwrap_or_else(|| added.without_backends());
    for ((NamedUrl { name, url }, settings), answer) in urls.iter().zip(added.backends).zip(answers) {
        let mut settings = match answer {
            Ok(answer) => serving(url, settings, &answer.response)?,
            // What it serves is not known, and its calls fail.
            Err(_) => BackendSettings {
                before_filter: None,
                before_filter_nodes: None,
                before_score: None,
                ..settings
            },
        };
        let is_taken = |name: &BackendName| config.backends.iter().any(|other| other.name == *name);
        match name {
            None if is_taken(&settings.name) => settings.name = free_name(is_taken),
            Some(name) if is_taken(name) => {
                return Err(Failure::Usage(format!(
                    "--backend {name}=…: another backend has this name; choose another one"
                )));
            }
            _ => {}
        }
        config.backends.push(settings);
    }
    Ok(config)
}

/// The answer to a handshake, which is repeated while there is none: the backend may be starting.
async fn asked_until(settings: &BackendSettings, until: Instant) -> Result<Handshake, RpcError> {
    loop {
        let answer = preflight(settings).await;
        if answer.is_ok() || Instant::now() >= until {
            return answer;
        }
        sleep(PAUSE).await;
    }
}

/// The settings of these backends, those without a name with a number; `None` without any.
fn parsed(urls: &[NamedUrl], args: &[NamedArgs]) -> Result<Option<Config>, Failure> {
    if urls.is_empty() {
        return Ok(None);
    }
    let mut entries: Vec<Value> = Vec::new();
    for (at, NamedUrl { name, url }) in urls.iter().enumerate() {
        let name = name.as_ref().map_or_else(|| format!("backend-{}", at + 1), ToString::to_string);
        // All that a simulation calls; those that a backend does not serve are removed.
        let mut entry = json!({ "name": name, "url": url.to_string() });
        for verb in
            PolicyVerb::ALL.iter().filter(|verb| !matches!(verb, PolicyVerb::Preempt | PolicyVerb::Bind))
        {
            entry[verb.name()] = json!({});
        }
        entries.push(entry);
    }
    for NamedArgs { name, args } in args {
        let named = |entry: &&mut Value| name.as_ref().is_some_and(|name| entry["name"] == name.as_str());
        let entry = match (name, entries.as_mut_slice()) {
            (None, [only]) => Some(only),
            (None, _) => None,
            (Some(_), entries) => entries.iter_mut().find(named),
        };
        let Some(entry) = entry else {
            let wrong = name.as_ref().map_or_else(
                || "there is more than one backend; write NAME=JSON, and NAME=URL in --backend".to_owned(),
                |name| format!("there is no --backend {name}=URL"),
            );
            return Err(Failure::Usage(format!("--args: {wrong}")));
        };
        entry["args"] = args.clone().into();
    }
    // JSON is YAML's flow style.
    let text = format!("apiVersion: {API_VERSION}\nkind: {KIND}\nbackends: {}\n", Value::from(entries));
    let config = Config::parse(&text, Path::new(""));
    config.map(Some).map_err(|errors| Failure::Usage(format!("--backend: {}", errors.on_one_line())))
}

/// The settings for the verbs that the backend serves, under the name that it has itself.
fn serving(
    url: &BackendUrl,
    mut settings: BackendSettings,
    answer: &GetInfoResponse,
) -> Result<BackendSettings, Failure> {
    let serves = |verb: Verb| answer.verbs.iter().any(|info| info.verb == i32::from(verb));
    settings.filter = settings.filter.filter(|_| serves(Verb::Filter));
    settings.score = settings.score.filter(|_| serves(Verb::Score));
    settings.before_filter = settings.before_filter.filter(|_| serves(Verb::BeforeFilter));
    settings.before_filter_nodes = settings.before_filter_nodes.filter(|_| serves(Verb::BeforeFilterNodes));
    settings.before_score = settings.before_score.filter(|_| serves(Verb::BeforeScore));
    if settings.verbs().next().is_none() {
        return Err(Failure::Usage(format!(
            "--backend {url}: it serves neither filter nor score nor a hook, so there is nothing to try; name another one"
        )));
    }
    let is_numbered = settings.name.as_str().starts_with("backend-");
    if let Some(own) = BackendName::new(&answer.name).ok().filter(|_| is_numbered) {
        settings.name = own;
    }
    Ok(settings)
}

/// A name of a backend that has none of its own.
fn free_name(is_taken: impl Fn(&BackendName) -> bool) -> BackendName {
    let names = (1_u32..).filter_map(|number| BackendName::new(&format!("backend-{number}")).ok());
    names.into_iter().find(|name| !is_taken(name)).expect("there are more names than backends")
}
