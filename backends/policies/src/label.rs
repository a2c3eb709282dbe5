//! Keys and values that a label can have.

/// Kubernetes' limits in bytes.
const MAX_NAME: usize = 63;
const MAX_DOMAIN: usize = 253;
const MAX_VALUE: usize = 63;

/// Whether a label, an annotation or a resource can have this key. Mirrors `IsLabelKey` of apimachinery.
pub(crate) fn is_key(key: &str) -> bool {
    key.split_once('/').map_or_else(|| is_name(key), |(domain, name)| is_domain(domain) && is_name(name))
}

/// Whether a label can have this value. Mirrors `IsLabelValue` of apimachinery.
pub(crate) fn is_value(value: &str) -> bool {
    value.is_empty() || is_word(value, MAX_VALUE)
}

/// What can stand before the slash of a key. Mirrors `IsDNS1123Subdomain` of apimachinery.
pub(crate) fn is_domain(domain: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(inside) && !part.starts_with('-') && !part.ends_with('-')
    };
    domain.len() <= MAX_DOMAIN && domain.split('.').all(part)
}

fn is_name(name: &str) -> bool {
    is_word(name, MAX_NAME)
}

/// Letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_word(text: &str, limit: usize) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let inner = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    bytes.len() <= limit && inner && ends(bytes.first()) && ends(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_that_may_have_a_domain() {
        let long = "n".repeat(63);
        for key in ["zone", "A_b.c-9", "example.com/gpu", "a-b.c/D", &long, &format!("a/{long}")] {
            assert!(is_key(key), "{key}");
        }
        let longer = "n".repeat(64);
        let domain = format!("{}/n", "d".repeat(254));
        for key in
            ["", "/", "/zone", "a/", "a/b/c", "a b", "-a", "a-", "A/b", "a..b/c", "ä", &longer, &domain]
        {
            assert!(!is_key(key), "{key}");
        }
    }

    #[test]
    fn values_may_be_empty() {
        assert!(["", "1", "a_b", &"v".repeat(63)].into_iter().all(is_value));
        assert!(!["-1", "a b", "a/b", &"v".repeat(64)].into_iter().any(is_value));
    }
}
