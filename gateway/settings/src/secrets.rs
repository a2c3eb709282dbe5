//! Args as they are shown to people: without values that may be secrets.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::Config;

/// What is shown in place of a secret.
const HIDDEN: &str = "(hidden)";

/// A value is hidden if its key, in lower case and without `-`, `_` and `.`, contains one of these, and with it all that is in it.
const SECRET: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "authorization",
    "apikey",
    "keydata",
];

impl Config {
    /// The same, where values of `args` that may be secrets are hidden, and whether there are any.
    pub fn without_secrets(mut self) -> (Self, bool) {
        let mut any = false;
        for args in self.backends.iter_mut().filter_map(|backend| backend.args.as_mut()) {
            if let Some(shown) = hidden_in(args) {
                (*args, any) = (shown, true);
            }
        }
        (self, any)
    }
}

/// `None` if nothing is hidden.
fn hidden_in(args: &Bytes) -> Option<Bytes> {
    let object: Value = serde_json::from_slice(args).ok()?;
    let shown = shown(&object);
    (shown != object).then(|| shown.to_string().into())
}

fn shown(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                let hides = is_secret(key) && !matches!(value, Value::Null | Value::Bool(_));
                (key.clone(), if hides { HIDDEN.into() } else { shown(value) })
            };
            Value::Object(members.iter().map(member).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(shown).collect(),
        Value::String(text) => without_user(text).into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase().replace(['-', '_', '.'], "");
    SECRET.iter().any(|word| key.contains(word))
}

/// A URL without its user name and password.
fn without_user(text: &str) -> String {
    let user = text.split_once("://").and_then(|(scheme, rest)| {
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        let (_, host) = authority.rsplit_once('@')?;
        Some(format!("{scheme}://{HIDDEN}@{host}{}", &rest[authority.len()..]))
    });
    user.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_secret_is_hidden_and_the_rest_stays() {
        let shown = |args: &'static str| {
            let shown = hidden_in(&Bytes::from_static(args.as_bytes()));
            shown.map_or_else(|| args.to_owned(), |shown| String::from_utf8(shown.to_vec()).unwrap())
        };
        for same in [
            "{}",
            r#"{"label":"topology/rack","url":"https://a:1/x@y","tokens":true}"#,
            r#"{"keys":["a"],"path":"/etc/token"}"#,
        ] {
            assert_eq!(shown(same), same);
        }
        for (args, expected) in [
            (r#"{"Password":"p"}"#, r#"{"Password":"(hidden)"}"#),
            (r#"{"a":[{"api-key":7,"b":1}]}"#, r#"{"a":[{"api-key":"(hidden)","b":1}]}"#),
            (r#"{"secrets":{"db":["x"]}}"#, r#"{"secrets":"(hidden)"}"#),
            (r#"{"tlsConfig":{"keyData":"TUlJ"}}"#, r#"{"tlsConfig":{"keyData":"(hidden)"}}"#),
            (r#"{"url":"https://me:p@ss@db:1/x?y"}"#, r#"{"url":"https://(hidden)@db:1/x?y"}"#),
        ] {
            assert_eq!(shown(args), expected);
        }
    }
}
