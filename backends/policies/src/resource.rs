//! Names of resources as kube-scheduler classifies them, and their amounts.

use extender_policy_sdk::Resources;

use extender_config::names;

/// The domain of Kubernetes' own resources.
const OWN_DOMAIN: &str = "kubernetes.io/";
/// The prefix that quotas add to a name.
const QUOTA: &str = "requests.";

/// A resource that kube-scheduler counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Cpu,
    Memory,
    EphemeralStorage,
    /// "example.com/gpu", "hugepages-2Mi".
    Scalar(String),
}

impl Resource {
    /// `None` for a name that kube-scheduler ignores, such as "gpu".
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "cpu" => Some(Self::Cpu),
            "memory" => Some(Self::Memory),
            "ephemeral-storage" => Some(Self::EphemeralStorage),
            _ => is_scalar(name).then(|| Self::Scalar(name.to_owned())),
        }
    }

    pub(super) fn is_scalar(&self) -> bool {
        matches!(self, Self::Scalar(_))
    }

    /// The amount: thousandths of a CPU, bytes, whole values.
    pub(super) fn amount(&self, amounts: &Resources) -> i64 {
        match self {
            Self::Cpu => amounts.milli_cpu,
            Self::Memory => amounts.memory,
            Self::EphemeralStorage => amounts.ephemeral_storage,
            Self::Scalar(name) => amounts.others.get(name).copied().unwrap_or_default(),
        }
    }
}

/// Mirrors `IsScalarResourceName` of kube-scheduler: other resources do not count.
pub(super) fn is_scalar(name: &str) -> bool {
    let has_prefix = ["hugepages-", "attachable-volumes-"].iter().any(|prefix| name.starts_with(prefix));
    has_prefix || name.contains(OWN_DOMAIN) || is_extended(name)
}

/// Mirrors `IsExtendedResourceName` of k8s.io/kubernetes/pkg/apis/core/v1/helper: resources that are not
/// Kubernetes' own.
pub(super) fn is_extended(name: &str) -> bool {
    let native = !name.contains('/') || name.contains(OWN_DOMAIN);
    !native && !name.starts_with(QUOTA) && names::is_qualified_name(&format!("{QUOTA}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_as_kube_scheduler_does() {
        // Name, counted, extended.
        for (name, scalar, extended) in [
            ("example.com/gpu", true, true),
            ("hugepages-2Mi", true, false),
            ("attachable-volumes-csi-a", true, false),
            ("kubernetes.io/batch", true, false),
            ("sub.kubernetes.io/batch", true, false),
            ("gpu", false, false),
            ("storage", false, false),
            ("requests.example.com/gpu", false, false),
            ("example.com/", false, false),
            ("Example.com/gpu", false, false),
        ] {
            assert_eq!((is_scalar(name), is_extended(name)), (scalar, extended), "{name}");
            assert_eq!(Resource::named(name).is_some(), scalar, "{name}");
        }
    }

    #[test]
    fn an_amount_that_is_not_given_is_0() {
        let amounts = Resources { milli_cpu: 1, memory: 2, ephemeral_storage: 3, ..Resources::default() };
        let names = ["cpu", "memory", "ephemeral-storage", "example.com/gpu"];
        let amount = |name| Resource::named(name).unwrap().amount(&amounts);
        assert_eq!(names.map(amount), [1, 2, 3, 0]);
    }
}
