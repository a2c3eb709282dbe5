//! The contract between the extender gateway and policy backends: the types generated from
//! `extender/policy/v1beta1/*.proto`, and its limits. No logic; the .proto files define the fields, `SPEC.md` the calls.
//!
//! The generated code is in the repository, so that whoever depends on this crate compiles no generator.

#[cfg(test)]
mod tests;

/// The limits of the contract: lengths in bytes, and numbers of entries; numbers in parentheses are those of SPEC.md.
#[expect(clippy::unreadable_literal, reason = "generated code")]
pub mod limits {
    include!("gen/limits.rs");
}

/// Package `extender.policy.v1beta1`.
#[expect(
    missing_docs,
    unused_qualifications,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated code; its documentation is the .proto files"
)]
pub mod v1beta1 {
    include!("gen/v1beta1.rs");

    /// The encoded `FileDescriptorSet` of the package, for the reflection service.
    pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("gen/descriptor.bin");

    impl Result {
        /// The result of an answer about this many nodes, under this revision; empty if there is none.
        pub fn answered(evaluated: u32, revision: impl Into<String>) -> Self {
            Self { outcome: Some(result::Outcome::Evaluated(evaluated)), revision: revision.into() }
        }

        /// The result of a response that is no answer.
        pub fn missed(miss: Miss) -> Self {
            Self { outcome: Some(result::Outcome::Miss(miss.into())), revision: String::new() }
        }
    }
}
