//! Limits of a handshake's content. The content costs memory as long as the connection lives, and work for each
//! node, so it is checked before it is decoded. SPEC.md has the same numbers.

use extender_gateway_core::BackendFailure;

use crate::contract::{
    malformed::malformed,
    scan::{Fields, Value},
};

/// The limit of a text or repeated field of `GetInfoResponse`.
struct HandshakeLimit {
    field: u32,
    name: &'static str,
    /// The most occurrences; `None` where the last one counts.
    most: Option<usize>,
    /// The most bytes of one occurrence.
    longest: usize,
}

/// Names are displayed and compared.
const LONGEST_TEXT: usize = 256;
/// No annotation key is longer: 253 bytes, a slash and 63 bytes.
const LONGEST_KEY: usize = 317;

const fn text(field: u32, name: &'static str) -> HandshakeLimit {
    HandshakeLimit { field, name, most: None, longest: LONGEST_TEXT }
}

const LIMITS: [HandshakeLimit; 8] = [
    text(1, "name"),
    text(2, "version"),
    text(3, "revision"),
    text(4, "api_version"),
    HandshakeLimit { most: Some(32), ..text(5, "requires") },
    HandshakeLimit { most: Some(32), ..text(6, "services") },
    HandshakeLimit { most: Some(32), ..text(7, "verbs") },
    HandshakeLimit { most: Some(64), longest: LONGEST_KEY, ..text(9, "annotation_prefixes") },
];

/// Rejects a handshake that exceeds the limits.
///
/// # Errors
/// Malformed, with the field and its limit.
pub(in crate::backend) fn check(message: &[u8]) -> Result<(), BackendFailure> {
    let mut counts = [0; LIMITS.len()];
    for field in Fields::of(message) {
        let field = field?;
        let Some(place) = LIMITS.iter().position(|limit| limit.field == field.number) else { continue };
        counts[place] += 1;
        let HandshakeLimit { name, longest, .. } = LIMITS[place];
        if let Value::Bytes(bytes) = field.value
            && bytes.len() > longest
        {
            let len = bytes.len();
            return Err(malformed(format!("{name} has {len} bytes, at most {longest} are accepted")));
        }
    }
    for (HandshakeLimit { name, most, .. }, count) in LIMITS.iter().zip(counts) {
        if let Some(most) = most.filter(|most| count > *most) {
            return Err(malformed(format!("there are {count} {name}, at most {most} are accepted")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure;
    use extender_policy_api::v1alpha1::{GetInfoResponse, VerbInfo};
    use prost::Message;

    use super::*;

    fn said(info: &GetInfoResponse) -> Result<(), String> {
        check(&info.encode_to_vec()).map_err(|failure| failure.detail)
    }

    #[test]
    fn as_much_as_is_accepted_is_accepted_and_one_more_is_not() {
        let texts = |count: usize, len: usize| vec!["x".repeat(len); count];
        let full = GetInfoResponse {
            name: "x".repeat(256),
            version: "x".repeat(256),
            revision: "x".repeat(256),
            api_version: "x".repeat(256),
            requires: texts(32, 256),
            services: texts(32, 256),
            verbs: vec![VerbInfo::default(); 32],
            annotation_prefixes: texts(64, 317),
            ..GetInfoResponse::default()
        };
        assert_eq!(said(&full), Ok(()));
        let mut more = full.clone();
        more.annotation_prefixes.push(String::new());
        assert_eq!(said(&more), Err("there are 65 annotation_prefixes, at most 64 are accepted".into()));
        let mut longer = full.clone();
        longer.annotation_prefixes[63].push('x');
        assert_eq!(said(&longer), Err("annotation_prefixes has 318 bytes, at most 317 are accepted".into()));
        let revision = GetInfoResponse { revision: "x".repeat(257), ..full.clone() };
        assert_eq!(said(&revision), Err("revision has 257 bytes, at most 256 are accepted".into()));
        let verbs = GetInfoResponse { verbs: vec![VerbInfo::default(); 33], ..full };
        assert_eq!(said(&verbs), Err("there are 33 verbs, at most 32 are accepted".into()));
    }

    #[test]
    fn a_handshake_of_nothing_many_times_costs_nothing() {
        for field in [5_u8, 6, 7, 9] {
            let message = [field << 3 | 2, 0].repeat(500_000);
            let cost = measure(|| assert!(check(&message).is_err()));
            assert!(cost.bytes_max < 1024, "{cost:?}");
        }
    }
}
