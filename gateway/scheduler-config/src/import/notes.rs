//! What the operator has to know or to decide besides the imported configuration.

use super::{Extender, Import, TlsValue};

/// Which extenders a note is about.
type Kind = fn(&Extender) -> bool;

/// Kinds of extenders, each with what is to be said about them.
const OF_EXTENDERS: [(Kind, &str); 6] = [
    (Extender::is_local, "urlPrefix is loopback; run http-extender on the extender's machine"),
    (
        Extender::may_have_effects,
        "args.sideEffects assumes that filter changes something, such as an annotation of the pod, so that `try`, Shadow and \
      canary do not call it; set [] if it does not, or name the verbs that do",
    ),
    (
        Extender::preempts,
        "the gateway lets it name victims of its own, as kube-scheduler does, but only on that node and of lower priority; \
      for that it watches pods",
    ),
    (Extender::has_files, "the files of tlsConfig must exist where http-extender runs"),
    (Extender::has_key_data, "keyData is a secret, now in args; better put it into a file and use keyFile"),
    (Extender::is_unverified, "the extender's certificate is not verified, as before; set caFile"),
];

impl Import {
    /// The notes, each a line.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "exempt.namespaces is [], so that the extenders are asked about the same pods as before; add the namespaces of the \
             gateway and of http-extender, so that they can start without each other"
                .to_owned(),
        ];
        notes.extend(
            OF_EXTENDERS.iter().filter_map(|(of, said)| Some(format!("{}: {said}", self.names(*of)?))),
        );
        notes.extend(self.several_bind());
        notes.extend(self.who_depends());
        if !self.ignored.is_empty() {
            notes.push(format!(
                "{}: unknown, left out; old kube-schedulers ignored it, too",
                self.ignored.join(", ")
            ));
        }
        notes
    }

    fn several_bind(&self) -> Option<String> {
        let names = self.names(Extender::binds).filter(|names| names.contains(", "))?;
        Some(format!(
            "{names}: all bind, which kube-scheduler refuses; the gateway asks the first of them whose managedResources the pod requests"
        ))
    }

    /// A pod that no extender was asked about did not depend on them.
    fn who_depends(&self) -> Option<String> {
        if self.extenders.iter().all(|extender| extender.resources.is_empty()) {
            return None;
        }
        let Some(general) = self.names(|extender| extender.resources.is_empty()) else {
            return Some(
                "extender.calledFor is ManagedResources, so that other pods do not depend on the gateway, as before; a later backend for all \
                 pods needs AllPods and other entries in kube-scheduler's configuration"
                    .to_owned(),
            );
        };
        Some(format!(
            "kube-scheduler calls the gateway for all pods, because {general} has no managedResources; while no gateway answers, pods wait that \
             did not depend on the other extenders before, unless all are ignorable"
        ))
    }

    fn names(&self, of: impl Fn(&Extender) -> bool) -> Option<String> {
        let named = self.extenders.iter().filter(|extender| of(extender)).map(|extender| &*extender.name);
        Some(named.collect::<Vec<_>>().join(", ")).filter(|names| !names.is_empty())
    }
}

impl Extender {
    fn is_local(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    fn may_have_effects(&self) -> bool {
        self.filter_verb.is_some()
    }

    fn preempts(&self) -> bool {
        self.preempt_verb.is_some()
    }

    fn binds(&self) -> bool {
        self.bind_verb.is_some()
    }

    fn has_files(&self) -> bool {
        self.has(|field| field.ends_with("File"))
    }

    fn has_key_data(&self) -> bool {
        self.has(|field| field == "keyData")
    }

    fn is_unverified(&self) -> bool {
        let is_insecure = self.tls.iter().flatten().any(|(_, value)| *value == TlsValue::Flag(true));
        let is_https = self.url_prefix.starts_with("https:");
        is_https && (is_insecure || (self.enable_https && !self.has(|field| field.starts_with("ca"))))
    }
}
