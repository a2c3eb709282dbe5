//! The args of a call: by their digest, with which a gateway names them, and in full where a backend may not hold them.

use std::sync::LazyLock;

use extender_policy_api::v1beta1::Call;

use crate::{
    Args,
    digest::{Digest, sha256},
    error::CallError,
};

/// Of no args.
static NONE: LazyLock<Digest> = LazyLock::new(|| sha256(b""));

/// Args as a request names them.
#[derive(Clone, Copy)]
pub(crate) struct NamedArgs<'a> {
    pub(crate) digest: Digest,
    /// `None` if only the digest is sent.
    pub(super) json: Option<&'a [u8]>,
}

impl<'a> NamedArgs<'a> {
    /// Args that a request brings in full.
    pub(crate) fn whole(json: &'a [u8]) -> Result<Self, CallError> {
        Ok(Self { digest: Args::digest(json)?, json: Some(json) })
    }

    /// Args that a request brought before.
    pub(crate) fn by(digest: Digest) -> Self {
        Self { digest, json: None }
    }

    pub(crate) fn of(call: &'a Call) -> Result<Self, CallError> {
        Self::sent(&call.args, &call.args_sha256)
    }

    /// `Call.args` and `Call.args_sha256`.
    pub(crate) fn sent(args: &'a [u8], args_sha256: &[u8]) -> Result<Self, CallError> {
        let json = Some(args).filter(|args| !args.is_empty());
        if args_sha256.is_empty() {
            return match json {
                None => Ok(Self { digest: *NONE, json: Some(args) }),
                Some(_) => Err(CallError::ArgsSha256("is missing; it is the SHA-256 of call.args")),
            };
        }
        let wrong = |_| CallError::ArgsSha256("is no SHA-256, which has 32 bytes");
        let digest = Digest::try_from(args_sha256).map_err(wrong)?;
        if let Some(json) = json
            && Args::digest(json)? != digest
        {
            return Err(CallError::ArgsSha256("is not the SHA-256 of call.args"));
        }
        Ok(Self { digest, json })
    }

    pub(super) fn are_none(&self) -> bool {
        self.digest == *NONE
    }
}
