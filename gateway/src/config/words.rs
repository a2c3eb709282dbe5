//! The words that the file has for choices, both ways.

use super::{
    AddedVictims, BindFailurePolicy, ChangingReasons, ClientCertificate, Exporter, FailurePolicy, LogFormat,
    LogLevel, Mode, Normalize, OtlpProtocol, PodSource, Preemption, PureAnswers, ReasonPrefix,
    RepeatedRefusals,
};

/// A choice that the file writes as one of several words.
pub trait Words: Copy + PartialEq + 'static {
    /// Every choice and its word.
    const WORDS: &'static [(&'static str, Self)];

    /// This choice's word.
    fn word(self) -> &'static str {
        let entry = Self::WORDS.iter().find(|(_, choice)| *choice == self);
        entry.expect("every choice has a word").0
    }
}

impl Words for ReasonPrefix {
    const WORDS: &'static [(&'static str, Self)] = &[("Backend", Self::Backend), ("None", Self::None)];
}

impl Words for FailurePolicy {
    const WORDS: &'static [(&'static str, Self)] = &[("Fail", Self::Fail), ("Ignore", Self::Ignore)];
}

impl Words for Preemption {
    const WORDS: &'static [(&'static str, Self)] = &[("Ignored", Self::Ignored), ("Honored", Self::Honored)];
}

impl Words for Normalize {
    const WORDS: &'static [(&'static str, Self)] =
        &[("None", Self::None), ("Range", Self::Range), ("Max", Self::Max), ("MinMax", Self::MinMax)];
}

impl Words for Mode {
    const WORDS: &'static [(&'static str, Self)] =
        &[("Enforce", Self::Enforce), ("Shadow", Self::Shadow), ("Disabled", Self::Disabled)];
}

impl Words for PureAnswers {
    const WORDS: &'static [(&'static str, Self)] =
        &[("Remembered", Self::Remembered), ("AskedEachTime", Self::AskedEachTime)];
}

impl Words for AddedVictims {
    const WORDS: &'static [(&'static str, Self)] = &[("Refused", Self::Refused), ("Allowed", Self::Allowed)];
}

impl Words for BindFailurePolicy {
    const WORDS: &'static [(&'static str, Self)] = &[("Fail", Self::Fail), ("Next", Self::Next)];
}

impl Words for ChangingReasons {
    const WORDS: &'static [(&'static str, Self)] = &[("Held", Self::Held), ("AsGiven", Self::AsGiven)];
}

impl Words for RepeatedRefusals {
    const WORDS: &'static [(&'static str, Self)] = &[("BackOff", Self::BackOff), ("AsGiven", Self::AsGiven)];
}

impl Words for ClientCertificate {
    const WORDS: &'static [(&'static str, Self)] =
        &[("Required", Self::Required), ("Optional", Self::Optional)];
}

impl Words for PodSource {
    const WORDS: &'static [(&'static str, Self)] = &[("Watch", Self::Watch), ("None", Self::None)];
}

impl Words for Exporter {
    const WORDS: &'static [(&'static str, Self)] = &[("None", Self::None), ("OTLP", Self::Otlp)];
}

impl Words for OtlpProtocol {
    const WORDS: &'static [(&'static str, Self)] =
        &[("grpc", Self::Grpc), ("http/protobuf", Self::HttpProtobuf)];
}

impl Words for LogFormat {
    const WORDS: &'static [(&'static str, Self)] = &[("Text", Self::Text), ("JSON", Self::Json)];
}

impl Words for LogLevel {
    const WORDS: &'static [(&'static str, Self)] =
        &[("error", Self::Error), ("warn", Self::Warn), ("info", Self::Info), ("debug", Self::Debug)];
}
