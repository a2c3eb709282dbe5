//! The packages of the policy API: which one a backend speaks, and what older ones say otherwise.
//!
//! The gateway asks for the newest package first. A backend that answers UNIMPLEMENTED is asked for the next older one; the
//! connection then stays with the one that was answered. Everything behind the handshake knows the newest alone: fields that
//! stay have the numbers that they had, so that pods and nodes are encoded once for all.

use extender_policy_api::v1beta1::GetInfoResponse;

/// A package of the policy API that the gateway speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiVersion {
    /// `extender.policy.v1beta1`
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

    /// The full name of a service of the newest package in this one.
    pub fn service(self, name: &str) -> String {
        format!("{}{}", self.package(), name.strip_prefix(Self::NEWEST.package()).unwrap_or(name))
    }

    /// The handshake as a backend of the newest package would give it.
    pub fn translated(self, mut response: GetInfoResponse) -> GetInfoResponse {
        if self == Self::NEWEST {
            return response;
        }
        for name in response.services.iter_mut().chain([&mut response.api_version]) {
            if let Some(rest) = name.strip_prefix(self.package()) {
                *name = format!("{}{rest}", Self::NEWEST.package());
            }
        }
        response
    }
}
