//! The operator's arguments for one configured policy.

use extender_policy_api::limits::ARGS_BYTES;
use serde::de::DeserializeOwned;

use crate::digest::{Digest, sha256};

/// What the operator wrote under `args:` for this backend, as one JSON object.
#[derive(Clone, Debug)]
pub struct Args {
    /// Empty, or an object, judged by its first byte.
    json: Box<[u8]>,
}

impl Args {
    /// Arguments as they come in a request: a JSON object in UTF-8, or nothing.
    ///
    /// # Errors
    ///
    /// [`ArgsError`] for JSON of another kind, and for more than 1 MiB.
    pub fn new(json: &[u8]) -> Result<Self, ArgsError> {
        check_length(json)?;
        match json.trim_ascii() {
            [] | [b'{', ..] => Ok(Self { json: json.trim_ascii().into() }),
            _ => Err(ArgsError::new("args is not a JSON object; write `args: {name: value}`")),
        }
    }

    /// The digest by which calls name these arguments.
    ///
    /// # Errors
    ///
    /// [`ArgsError`] for more than 1 MiB, which is not worth the work.
    #[doc(hidden)]
    pub fn digest(json: &[u8]) -> Result<Digest, ArgsError> {
        check_length(json)?;
        Ok(sha256(json))
    }

    /// Whether no argument is given.
    pub fn is_empty(&self) -> bool {
        match &*self.json {
            [] => true,
            [b'{', inner @ .., b'}'] => inner.trim_ascii().is_empty(),
            _ => false,
        }
    }

    /// Parses the arguments into a type of the policy; without arguments, from an empty object. Put
    /// `#[serde(deny_unknown_fields)]` on the type, so that a misspelt name is rejected instead of ignored.
    ///
    /// # Errors
    ///
    /// [`ArgsError`] with the path of the mistake, such as `args.rules[2].weight`, and serde's description of it.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ArgsError> {
        let json: &[u8] = if self.json.is_empty() { b"{}" } else { &self.json };
        let mut json = serde_json::Deserializer::from_slice(json);
        let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| wrong(&error))?;
        json.end().map_err(|error| ArgsError::new(format!("args: {error}")))?;
        Ok(parsed)
    }

    /// For policies that take no arguments.
    #[doc(hidden)]
    pub fn refuse_any(&self) -> Result<(), ArgsError> {
        if self.is_empty() {
            return Ok(());
        }
        Err(ArgsError::new("this policy takes no args; remove `args` from its entry in the configuration"))
    }
}

fn check_length(json: &[u8]) -> Result<(), ArgsError> {
    let given = json.len();
    if given <= ARGS_BYTES {
        return Ok(());
    }
    Err(ArgsError::new(format!(
        "args has {given} bytes; at most {ARGS_BYTES} are allowed, put longer lists into a file of the policy"
    )))
}

/// The mistake and its path. A position in the JSON means nothing to operators, who have written YAML.
fn wrong(error: &serde_path_to_error::Error<serde_json::Error>) -> ArgsError {
    let inner = error.inner();
    let (said, at) = (inner.to_string(), format!(" at line {} column {}", inner.line(), inner.column()));
    let said = if inner.is_data() { said.strip_suffix(&at).unwrap_or(&said) } else { &said };
    match error.path().to_string().as_str() {
        "." => ArgsError::new(format!("args: {said}")),
        path if path.starts_with('[') => ArgsError::new(format!("args{path}: {said}")),
        path => ArgsError::new(format!("args.{path}: {said}")),
    }
}

/// Why arguments are rejected. The text reaches the operator: it names the mistake and what is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgsError(String);

impl ArgsError {
    /// An error with this sentence.
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
        #[serde(default)]
        rules: Vec<Rule>,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rule {
        weight: u8,
    }

    #[test]
    fn nothing_and_an_empty_object_are_no_arguments() {
        for (json, empty) in [("", true), ("{}", true), (" { } ", true), (r#"{"a":1}"#, false), ("{", false)]
        {
            assert_eq!(Args::new(json.as_bytes()).unwrap().is_empty(), empty, "{json}");
        }
    }

    #[test]
    fn args_of_more_than_a_mebibyte_are_refused() {
        let padded = |len: usize| format!("{{{}}}", " ".repeat(len - 2)).into_bytes();
        assert!(Args::new(&padded(1 << 20)).unwrap().is_empty());
        let long = padded((1 << 20) + 1);
        for error in [Args::new(&long).map(drop).unwrap_err(), Args::digest(&long).map(drop).unwrap_err()] {
            assert!(error.to_string().starts_with("args has 1048577 bytes; at most 1048576"), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (json, expected) in [
            (r#"["rack"]"#, "args is not a JSON object"),
            ("7", "args is not a JSON object"),
            ("{", "EOF"),
            ("", "missing field `label`"),
            (r#"{"label":"a"} {}"#, "args: trailing characters"),
        ] {
            let error = Args::new(json.as_bytes()).and_then(|args| args.parse::<Drain>()).unwrap_err();
            assert!(error.to_string().contains(expected), "{json}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_path() {
        for (json, expected) in [
            ("{}", "args: missing field `label`"),
            (r#"{"lable":"rack"}"#, "args.lable: unknown field `lable`, expected `label` or `rules`"),
            (r#"{"label":7}"#, "args.label: invalid type: integer `7`, expected a string"),
            (
                r#"{"label":"a","rules":[{"weight":1},{"weight":300}]}"#,
                "args.rules[1].weight: invalid value: integer `300`, expected u8",
            ),
            (
                r#"{"label":"a","rules":[{"wieght":1}]}"#,
                "args.rules[0].wieght: unknown field `wieght`, expected `weight`",
            ),
            (r#"{"label":"a","rules":[{}]}"#, "args.rules[0]: missing field `weight`"),
        ] {
            let error = Args::new(json.as_bytes()).unwrap().parse::<Drain>().unwrap_err();
            assert_eq!(error.to_string(), expected, "{json}");
        }
    }

    #[test]
    fn arguments_are_read_into_the_type() {
        let args = Args::new(br#"{"label":"rack"}"#).unwrap();
        assert_eq!(args.parse::<Drain>().unwrap(), Drain { label: "rack".into(), rules: Vec::new() });
    }
}
