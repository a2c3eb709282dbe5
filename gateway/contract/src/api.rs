//! The packages of the policy API: which one a backend speaks, and what the older one says otherwise.
//!
//! The gateway asks for the newest package first. A backend that answers UNIMPLEMENTED is asked for the next older one; the
//! connection then stays with the one that was answered. Fields that stay have the numbers that they had, so that pods and
//! nodes are encoded once for all; the rest of the older package is in [`super::v1alpha1`], here, in [`super::question`],
//! [`super::nodes`] and [`super::answer`].

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, PolicyVerb};
use extender_policy_api::v1beta1::{GetInfoResponse, Verb};

use super::{
    protobuf::{decoded, fields},
    v1alpha1::{OldInfo, OldVerb},
};

/// A package of the policy API that the gateway speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ApiVersion {
    /// `extender.policy.v1beta1`
    #[default]
    V1Beta1,
    /// `extender.policy.v1alpha1`, for one release.
    V1Alpha1,
}

impl ApiVersion {
    /// The newest.
    pub const NEWEST: Self = Self::V1Beta1;
    /// All, the newest first.
    pub const ALL: [Self; 2] = [Self::NEWEST, Self::V1Alpha1];

    /// Its name.
    pub fn package(self) -> &'static str {
        match self {
            Self::V1Beta1 => "extender.policy.v1beta1",
            Self::V1Alpha1 => "extender.policy.v1alpha1",
        }
    }

    /// The full name of a service of the newest package in this one; others stay as they are.
    pub fn service(self, name: &str) -> String {
        match name.strip_prefix(Self::NEWEST.package()) {
            Some(rest) => format!("{}{rest}", self.package()),
            None => name.to_owned(),
        }
    }

    /// The name of the method that serves a verb.
    pub fn method(self, verb: PolicyVerb) -> &'static str {
        match (verb, self) {
            (PolicyVerb::Filter, _) => "Filter",
            (PolicyVerb::Score, _) => "Score",
            (PolicyVerb::Preempt, _) => "Preempt",
            (PolicyVerb::Bind, _) => "Bind",
            (PolicyVerb::BeforeFilter, Self::V1Alpha1) => "BeforeFilter",
            (PolicyVerb::BeforeFilterNodes, Self::V1Alpha1) => "BeforeFilterNodes",
            (PolicyVerb::BeforeScore, Self::V1Alpha1) => "BeforeScore",
            (PolicyVerb::BeforeFilter | PolicyVerb::BeforeFilterNodes | PolicyVerb::BeforeScore, _) => {
                "Change"
            }
        }
    }
}

/// A hook as `ChangeRequest` names it; `None` for other verbs.
pub fn hook(verb: PolicyVerb) -> Option<Verb> {
    match verb {
        PolicyVerb::Filter | PolicyVerb::Score | PolicyVerb::Preempt | PolicyVerb::Bind => None,
        PolicyVerb::BeforeFilter => Some(Verb::BeforeFilter),
        PolicyVerb::BeforeFilterNodes => Some(Verb::BeforeFilterNodes),
        PolicyVerb::BeforeScore => Some(Verb::BeforeScore),
    }
}

/// A declaration of what a verb reads, as calls name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadsId {
    /// There is none.
    #[default]
    None,
    /// The SHA-256 of its encoding.
    Digest([u8; 32]),
    /// `Reads.id` of v1alpha1.
    Number(u32),
}

/// What a backend says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Handshake {
    /// The package that it is in.
    pub api: ApiVersion,
    /// The response, as one of the newest package says it.
    pub response: GetInfoResponse,
    /// The names of its declarations, in the order of `response.verbs`.
    pub reads: Vec<ReadsId>,
}

/// The field of `GetInfoResponse` with the verbs, and that of `VerbInfo` with what it reads.
const VERBS: u32 = 7;
const READS: u32 = 11;

impl Handshake {
    /// Reads a response of this package, whose size was checked.
    ///
    /// # Errors
    /// It is not protobuf.
    pub fn read(answer: &[u8], api: ApiVersion) -> Result<Self, BackendFailure> {
        let answer = Bytes::copy_from_slice(answer);
        let mut response: GetInfoResponse = decoded(answer.clone())?;
        let old: OldInfo = match api {
            ApiVersion::V1Beta1 => OldInfo::default(),
            ApiVersion::V1Alpha1 => decoded(answer.clone())?,
        };
        let mut reads = Vec::with_capacity(response.verbs.len());
        for field in fields(&answer) {
            let (VERBS, Some(verb)) = field? else { continue };
            reads.push(match api {
                ApiVersion::V1Beta1 => digest(verb)?,
                ApiVersion::V1Alpha1 => {
                    let old_verb: OldVerb = decoded(Bytes::copy_from_slice(verb))?;
                    if let Some(verb) = response.verbs.get_mut(reads.len()) {
                        old_verb.complete(verb, &old);
                    }
                    ReadsId::Number(old_verb.id())
                }
            });
        }
        for name in response.services.iter_mut().chain([&mut response.api_version]) {
            if let Some(rest) = name.strip_prefix(api.package()) {
                *name = format!("{}{rest}", ApiVersion::NEWEST.package());
            }
        }
        Ok(Self { api, response, reads })
    }
}

/// The SHA-256 of what this `VerbInfo` reads, as the backend has encoded it.
fn digest(verb: &[u8]) -> Result<ReadsId, BackendFailure> {
    let mut found = ReadsId::None;
    for field in fields(verb) {
        if let (READS, Some(reads)) = field? {
            found = ReadsId::Digest(sha256(reads));
        }
    }
    Ok(found)
}

/// The SHA-256 of these bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_other_packages_have_one_name() {
        let old = ApiVersion::V1Alpha1;
        assert_eq!(
            old.service("extender.policy.v1beta1.HookService"),
            "extender.policy.v1alpha1.HookService"
        );
        assert_eq!(old.service("grpc.health.v1.Health"), "grpc.health.v1.Health");
        assert_eq!(ApiVersion::NEWEST.service("grpc.health.v1.Health"), "grpc.health.v1.Health");
    }
}
