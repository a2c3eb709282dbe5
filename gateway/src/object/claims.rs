//! A pod's volumes and their claims: which belong to the template, and which only to this pod.

use extender_policy_api::v1alpha1 as api;
use serde::Deserialize;

use super::json::{List, Text};

/// The name prefix of the volume with the service account's token. The apiserver adds a random suffix for each pod.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// Mirrors `corev1.Volume`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Volume<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    persistent_volume_claim: Option<ClaimSource<'a>>,
    /// Only its presence matters.
    ephemeral: Option<EphemeralSource>,
}

/// Mirrors `corev1.PersistentVolumeClaimVolumeSource`, the field that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSource<'a> {
    #[serde(borrow)]
    claim_name: Text<'a>,
}

/// A claim that the control plane creates for the pod; its template is not parsed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EphemeralSource {}

/// The claim behind a volume.
enum Claim<'v> {
    None,
    /// Named in the template.
    Shared(&'v str),
    /// Its name is derived from the pod's.
    Derived(String),
}

impl Volume<'_> {
    fn claim(&self, pod: &str) -> Claim<'_> {
        if let Some(source) = &self.persistent_volume_claim {
            return named(&source.claim_name, pod);
        }
        match &self.ephemeral {
            // Mirrors `ephemeral.VolumeClaimName` of k8s.io/component-helpers.
            Some(_) if !pod.is_empty() => Claim::Derived(format!("{pod}-{}", &*self.name)),
            _ => Claim::None,
        }
    }

    fn fact(&self, pod: &str) -> api::Volume {
        let claim = match self.claim(pod) {
            Claim::Shared(claim) => claim.to_owned(),
            Claim::Derived(_) | Claim::None => String::new(),
        };
        api::Volume { name: (&self.name).into(), claim }
    }
}

/// A claim of a `StatefulSet` is named `<template>-<pod>`: it differs between pods, so it is not a fact.
fn named<'v>(claim: &'v str, pod: &str) -> Claim<'v> {
    if !pod.is_empty() && claim.strip_suffix(pod).is_some_and(|template| template.ends_with('-')) {
        Claim::Derived(claim.to_owned())
    } else {
        Claim::Shared(claim)
    }
}

/// The volumes as facts, in order, without the service account's token.
pub(super) fn facts(volumes: &List<Volume<'_>>, pod: &str) -> Vec<api::Volume> {
    let told = volumes.iter().filter(|volume| !volume.name.starts_with(TOKEN_VOLUME));
    told.map(|volume| volume.fact(pod)).collect()
}

/// The claims whose names are derived from the pod's name, in order.
pub(super) fn derived(volumes: &List<Volume<'_>>, pod: &str) -> Vec<String> {
    let derived = volumes.iter().filter_map(|volume| match volume.claim(pod) {
        Claim::Derived(claim) => Some(claim),
        Claim::Shared(_) | Claim::None => None,
    });
    derived.collect()
}
