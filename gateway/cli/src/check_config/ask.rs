//! `check-config --ask`: what the backends themselves say about their settings.

use std::io;

use extender_gateway_backend::{
    RpcError,
    handshake::preflight,
    info::{ClusterTables, Handshake, Info, UnscaledScores},
    remedy,
};
use extender_gateway_core::PolicyVerb;
use extender_gateway_object::text::clean;
use extender_gateway_settings::{
    BackendSettings, Config, Finding, INEXACT_LIMIT, INEXACT_LIMIT_REMEDY, Mode,
};
use extender_policy_api::v1beta1::{GetInfoResponse, Verb};
use futures_util::future::join_all;
use tonic::Code;

use crate::block_on;

/// The answers of all backends.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// What is wrong.
    pub(super) findings: Vec<Finding>,
    /// A sentence for each backend that can be used.
    pub(super) notes: Vec<String>,
    /// What is valid but probably unintended.
    pub(super) warnings: Vec<String>,
}

/// Performs a handshake with every backend that the gateway would call, all at once.
///
/// # Errors
/// There is no runtime for it.
pub(super) fn backends(config: &Config) -> io::Result<Answers> {
    // A provider that is already installed stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let tables = ClusterTables::of_config(config);
    let called = config.backends.iter().enumerate().filter(|(_, backend)| backend.mode != Mode::Disabled);
    let asked = called.map(async |(at, backend)| (at, backend, preflight(backend).await));
    let mut answers = Answers::default();
    for (at, backend, answer) in block_on(join_all(asked))? {
        let place = format!("backends[{at}]");
        match answer {
            Ok(handshake) => {
                let info = answers.add(&place, backend, handshake, &tables);
                answers.warnings.extend(inexact_limit(&place, &info, backend, config));
            }
            Err(error) => answers.findings.push(failed(&place, &error)),
        }
    }
    Ok(answers)
}

impl Answers {
    fn add(
        &mut self,
        place: &str,
        backend: &BackendSettings,
        handshake: Handshake,
        tables: &ClusterTables,
    ) -> Info {
        let unused = unused(&handshake.response, backend);
        let info = Info::read(handshake, backend, tables);
        let unusable: Vec<_> = backend.verbs().filter_map(|verb| unusable(place, &info, verb)).collect();
        if unusable.is_empty() {
            let verbs: Vec<_> = backend.verbs().map(PolicyVerb::name).collect();
            let policy = clean(&format!("{} {}", info.name, info.version)).into_owned();
            let verbs = verbs.join(", ");
            let unused = if unused.is_empty() {
                String::new()
            } else {
                format!("; it also serves {}, which the configuration does not ask for", unused.join(", "))
            };
            self.notes.push(format!("{place}: {} answers: {policy} serves {verbs}{unused}", backend.name));
            self.notes.extend(
                info.unscaled_scores()
                    .map(|scores| format!("warning: {place}.score: {scores}; {}", UnscaledScores::REMEDY)),
            );
        }
        self.findings.extend(unusable);
        info
    }
}

/// The verbs that the backend serves and the configuration does not have.
fn unused(response: &GetInfoResponse, backend: &BackendSettings) -> Vec<&'static str> {
    let served = response.verbs.iter().filter_map(|verb| match verb.verb() {
        Verb::Unspecified => None,
        Verb::Filter => Some(PolicyVerb::Filter),
        Verb::Score => Some(PolicyVerb::Score),
        Verb::Preempt => Some(PolicyVerb::Preempt),
        Verb::Bind => Some(PolicyVerb::Bind),
        Verb::BeforeFilter => Some(PolicyVerb::BeforeFilter),
        Verb::BeforeFilterNodes => Some(PolicyVerb::BeforeFilterNodes),
        Verb::BeforeScore => Some(PolicyVerb::BeforeScore),
    });
    let (served, configured): (Vec<_>, Vec<_>) = (served.collect(), backend.verbs().collect());
    let unused =
        PolicyVerb::ALL.into_iter().filter(|verb| served.contains(verb) && !configured.contains(verb));
    unused.map(PolicyVerb::name).collect()
}

/// A warning about limits that many pods at once exceed.
pub(super) fn inexact_limit(
    place: &str,
    info: &Info,
    backend: &BackendSettings,
    config: &Config,
) -> Option<String> {
    let is_inexact = info.filters_by_bound_pods() && config.has_inexact_limits(backend);
    is_inexact.then(|| format!("{place}: {}: {INEXACT_LIMIT}; {INEXACT_LIMIT_REMEDY}", backend.name))
}

/// Why a configured verb cannot be used.
fn unusable(place: &str, info: &Info, verb: PolicyVerb) -> Option<Finding> {
    let detail = clean(&info.refusal(verb)?.detail);
    // Most of these sentences contain their own remedy.
    let other = "use a version of the policy that fits this gateway, or remove the verb";
    let (wrong, remedy) = detail.rsplit_once("; ").unwrap_or((&*detail, other));
    Some(Finding {
        path: format!("{place}.{}", verb.name()),
        wrong: format!("the backend {wrong}"),
        remedy: remedy.to_owned(),
    })
}

fn failed(place: &str, RpcError { status, failure, .. }: &RpcError) -> Finding {
    let field = if *status == Some(Code::InvalidArgument) { "args" } else { "url" };
    let wrong = clean(&failure.detail).into_owned();
    let remedy = remedy::of_failure(&wrong).to_owned();
    Finding { path: format!("{place}.{field}"), wrong, remedy }
}
