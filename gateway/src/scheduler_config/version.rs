//! The version of kube-scheduler, and the form of its configuration.

use std::str::FromStr;

/// The oldest supported minor version.
const OLDEST: u32 = 18;
/// The first minor version with `FailedAndUnresolvableNodes`.
const FIRST_WITH_ALL_REASONS: u32 = 21;
/// The first minor version whose `KubeSchedulerConfiguration` has `extenders` in the current form.
const FIRST_OF_TODAY: u32 = 19;

/// A version of Kubernetes from 1.18 on: `1.36`, `v1.18.20`, `1.36-rc.1`, `1.18+`. The rest after the minor version
/// is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    minor: u32,
}

/// How extenders are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigForm {
    /// `extenders` of a `KubeSchedulerConfiguration`, v1beta1 to v1.
    Extenders,
    /// The JSON file of `--policy-config-file`.
    Policy,
}

impl Version {
    /// The form that a kube-scheduler of this version reads.
    pub fn form(self) -> ConfigForm {
        if self.minor < FIRST_OF_TODAY { ConfigForm::Policy } else { ConfigForm::Extenders }
    }

    /// Whether a kube-scheduler of this version shows the reasons of all rejected nodes: older ones ignore
    /// `FailedAndUnresolvableNodes` (`ExtenderFilterResult` of `k8s.io/kube-scheduler/extender/v1`, version 0.21).
    pub fn shows_all_reasons(self) -> bool {
        self.minor >= FIRST_WITH_ALL_REASONS
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let minor = text.strip_prefix('v').unwrap_or(text).strip_prefix("1.").and_then(minor);
        match minor {
            Some(minor) if minor >= OLDEST => Ok(Self { minor }),
            Some(minor) => Err(format!("1.{minor} is not supported; 1.{OLDEST} and later are")),
            None => Err(format!("not a version of Kubernetes such as 1.36 or v1.{OLDEST}.20")),
        }
    }
}

/// The number at the start of the text, followed by nothing, a patch version, a pre-release or a distributor's `+`.
fn minor(text: &str) -> Option<u32> {
    let (number, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let ends = rest.is_empty() || rest.starts_with(['.', '-', '+']);
    number.parse().ok().filter(|_| ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_changed_with_1_19() {
        let cases = [
            ("1.18", ConfigForm::Policy),
            ("v1.18.20", ConfigForm::Policy),
            ("1.18+", ConfigForm::Policy),
            ("1.19", ConfigForm::Extenders),
            ("1.36-rc.1", ConfigForm::Extenders),
            ("v1.36.3-rc.1", ConfigForm::Extenders),
            ("1.100", ConfigForm::Extenders),
        ];
        for (text, form) in cases {
            assert_eq!(text.parse::<Version>().unwrap().form(), form, "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_version() {
        for text in ["", "1", "1.", "2.0", "1.x", "1.+18", "1.18x", "1.-1", "11.18", "latest", "vv1.18"] {
            let error = text.parse::<Version>().unwrap_err();
            assert_eq!(error, "not a version of Kubernetes such as 1.36 or v1.18.20", "{text}");
        }
    }

    #[test]
    fn versions_of_which_nothing_is_known_are_refused() {
        for (text, named) in
            [("1.2", "1.2"), ("v1.3", "1.3"), ("1.17.17", "1.17"), ("1.0", "1.0"), ("1.08", "1.8")]
        {
            let expected = format!("{named} is not supported; 1.18 and later are");
            assert_eq!(text.parse::<Version>().unwrap_err(), expected);
        }
    }

    #[test]
    fn all_reasons_are_shown_from_1_21_on() {
        for (text, all) in
            [("1.18", false), ("1.19", false), ("1.20.15", false), ("1.21", true), ("1.36", true)]
        {
            assert_eq!(text.parse::<Version>().unwrap().shows_all_reasons(), all, "{text}");
        }
    }
}
