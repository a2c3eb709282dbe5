//! The operator's arguments for one configured policy.

use serde::de::DeserializeOwned;

/// What the operator wrote under `args:` for this backend, as one JSON object.
#[derive(Clone, Debug)]
pub struct Args {
    /// Empty, or an object as far as its first byte tells.
    json: Box<[u8]>,
}

impl Args {
    /// Arguments as they come in a request: a JSON object in UTF-8, or nothing at all.
    ///
    /// # Errors
    ///
    /// [`ArgsError`] for JSON of another kind.
    pub fn new(json: &[u8]) -> Result<Self, ArgsError> {
        match json.trim_ascii() {
            [] | [b'{', ..] => Ok(Self { json: json.trim_ascii().into() }),
            _ => Err(ArgsError::new("args is not a JSON object; write `args: {name: value}`")),
        }
    }

    /// Whether no argument is given.
    pub fn is_empty(&self) -> bool {
        match &*self.json {
            [] => true,
            [b'{', inner @ .., b'}'] => inner.trim_ascii().is_empty(),
            _ => false,
        }
    }

    /// Reads the arguments into a type of the policy; without arguments, from an empty object. Put
    /// `#[serde(deny_unknown_fields)]` on the type, so that a misspelt name is refused instead of ignored.
    ///
    /// # Errors
    ///
    /// [`ArgsError`] with what serde found wrong.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ArgsError> {
        let json: &[u8] = if self.json.is_empty() { b"{}" } else { &self.json };
        serde_json::from_slice(json).map_err(|error| ArgsError::new(format!("args: {error}")))
    }

    /// For policies that take no arguments.
    pub(crate) fn refuse_any(&self) -> Result<(), ArgsError> {
        if self.is_empty() {
            return Ok(());
        }
        Err(ArgsError::new("this policy takes no args; remove `args` from its entry in the configuration"))
    }
}

/// Why arguments are refused. The text reaches the operator: it says what is wrong and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgsError(String);

impl ArgsError {
    /// A refusal with its sentence.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Drain {
        label: String,
    }

    #[test]
    fn nothing_and_an_empty_object_are_no_arguments() {
        for (json, empty) in [("", true), ("{}", true), (" { } ", true), (r#"{"a":1}"#, false), ("{", false)]
        {
            assert_eq!(Args::new(json.as_bytes()).unwrap().is_empty(), empty, "{json}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (json, expected) in [
            (r#"["rack"]"#, "args is not a JSON object"),
            ("7", "args is not a JSON object"),
            ("{", "EOF"),
            ("", "missing field `label`"),
            (r#"{"lable":"rack"}"#, "unknown field `lable`, expected `label`"),
            (r#"{"label":7}"#, "invalid type: integer `7`, expected a string"),
        ] {
            let error = Args::new(json.as_bytes()).and_then(|args| args.parse::<Drain>()).unwrap_err();
            assert!(error.to_string().contains(expected), "{json}: {error}");
        }
    }

    #[test]
    fn arguments_are_read_into_the_type() {
        let args = Args::new(br#"{"label":"rack"}"#).unwrap();
        assert_eq!(args.parse::<Drain>().unwrap(), Drain { label: "rack".into() });
    }
}
