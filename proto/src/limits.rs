//! Limits of the contract: lengths in bytes (`_BYTES`), and counts. They are stated here alone: `make limits-record` writes
//! them to SPEC.md, to the comments of the .proto files and to the SDKs of other languages; a test fails while one is stale.

/// A limit, for what is generated.
#[cfg(test)]
struct Limit {
    name: &'static str,
    value: usize,
    /// The number of the sentence in SPEC.md.
    rule: &'static str,
    text: &'static str,
    /// Whether the SDKs of other languages use it.
    is_for_sdks: bool,
}

macro_rules! limits {
    ($($name:ident = $value:expr, $rule:literal $(for $sdks:ident)?, $text:literal;)*) => {
        $(
            #[doc = concat!("SPEC.md, ", $rule, ": ", $text, ".")]
            pub const $name: usize = $value;
        )*

        #[cfg(test)]
        const ALL: &[Limit] = &[$(Limit {
            name: stringify!($name),
            value: $value,
            rule: $rule,
            text: $text,
            is_for_sdks: !stringify!($($sdks)?).is_empty(),
        }),*];
    };
}

limits! {
    // The handshake.
    REQUEST_BYTES = 4 << 20, "4.1", "a request, where the handshake has no `max_request_bytes`";
    NAME_BYTES = 63, "8.3", "the name of a policy or a backend";
    VERSION_BYTES = 64, "8.3", "the version of a program";
    REVISION_BYTES = 64, "8.3", "a revision";
    HANDSHAKE_TEXT_BYTES = 256, "8.3", "a name, version or revision that the gateway accepts, and a name in `requires` or `services`";
    HANDSHAKE_ENTRIES = 32, "8.3", "entries of `requires`, of `services` and of `verbs`";
    ANNOTATION_PREFIXES = 64, "8.3", "entries of `annotation_prefixes`";
    KEY_BYTES = 317, "8.3" for sdks, "a key or prefix of labels, annotations and the like: 253 bytes, a slash and 63 bytes";
    READ_KEYS = 1_000, "8.3" for sdks, "keys and prefixes of one `Reads`";
    READ_PARTS = 64, "8.3" for sdks, "parts of one `Reads`, known or not";
    READ_COUNTS = 8, "42.1" for sdks, "entries of `pod_counts`, and of `topology_counts`";
    REJECTED_CONFIGURATION_BYTES = 1 << 10, "8.3" for sdks, "`rejected_configuration`";
    ARGS_BYTES = 1 << 20, "9.2" for sdks, "the args that a backend must accept";
    PATHS = 64, "8.3", "entries of `introspection`";
    PATH_TEXT_BYTES = 256, "53.2" for sdks, "a path of introspection, and its description";
    PATH_ENTRY_BYTES = 1 << 10, "8.3", "an entry of `introspection`, encoded";
    CONTROLLER_NAMES = 32, "55.1", "controllers of a backend";
    CONTROLLER_NAME_BYTES = 63, "55.1", "the name of a controller";
    LEASE_BYTES = 320, "55.1", "namespace and name of a Lease";
    IDENTITY_BYTES = 253, "55.1" for sdks, "the identity of a holder of a Lease";
    CONTROLLERS_BYTES = 4 << 10, "8.3", "`controllers`, encoded";
    // What the gateway sends.
    NODE_COUNTS = 512, "45" for sdks, "counts of one entry of `pod_counts` in a row";
    COUNTED_VALUE_BYTES = 253, "45" for sdks, "a value by which pods are counted";
    DOMAINS = 4_096, "46" for sdks, "domains of one entry of `topology_counts`";
    QUERY_ENTRIES = 32, "54.1" for sdks, "entries of the query of a page";
    QUERY_BYTES = 8 << 10, "54.1" for sdks, "their keys and values together";
    // Responses.
    INFO_RESPONSE_BYTES = 1 << 20, "13.4", "the response of `GetInfo`";
    NODES_RESPONSE_BYTES = 64 << 10, "13.4", "a response about nodes";
    NODE_RESPONSE_BYTES = 1 << 10, "13.4", "more of it for each node";
    POD_RESPONSE_BYTES = 128 << 10, "58.4", "the response of `BeforeFilter`";
    BIND_RESPONSE_BYTES = 16 << 10, "13.4", "the response of `Bind`";
    TABLE_RESPONSE_BYTES = 1 << 10, "13.4", "a response of `SyncNodes`";
    REASON_BYTES = 4 << 10, "13.5", "a reason: the gateway reads no more";
    SHOWN_REASON_BYTES = 200, "13.2", "a reason in the condition of a pod: the rest is cut off";
    RULE_BYTES = 63, "13.5" for sdks, "the name of a rule: the gateway reads no more";
    ADDED_UIDS = 10_000, "16.1", "added UIDs of a response of `Preempt`";
    ADDED_UID_BYTES = 4 << 10, "16.3", "an added UID";
    BIND_MESSAGE_BYTES = 1 << 10, "48.5" for sdks, "the message of a response of `Bind`";
    STATUS_MESSAGE_BYTES = 1 << 10, "50.3" for sdks, "the message of a status: the gateway reads no more";
    JSON_BYTES = 4 << 20, "54.1" for sdks, "the JSON of a page";
    // Changes of hooks.
    CHANGE_ENTRIES = 64, "58.4", "entries in all maps and lists of a change, without positions and `node_affinity`";
    CHANGE_VALUE_BYTES = 256, "58.4", "a value of a label, a selector, a taint or a toleration";
    CHANGE_REASON_BYTES = 200, "58.4" for sdks, "the reason of a change: the rest is cut off";
    AFFINITY_ENTRIES = 1_024, "58.4", "terms, requirements and values of a `node_affinity`";
    AFFINITY_BYTES = 64 << 10, "58.4", "a `node_affinity`, encoded";
    CHANGE_USERS = 1_024, "58.4", "users of the holds of a change, and one more for each other resource of their `at_most`";
    USER_UID_BYTES = 64, "58.4", "the UID of a user";
    RESPONSE_ENTRIES = 4_096, "58.4", "entries of all changes of a response";
    NODE_ENTRIES = 4, "58.4", "more of them for each node";
    RESPONSE_USERS = 1_024, "58.4", "users of all holds of a response";
    NODE_USERS = 24, "58.4", "more of them for each node";
}

#[cfg(test)]
mod tests;
