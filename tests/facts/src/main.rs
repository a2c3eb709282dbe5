//! `extender-facts`: reads requests from standard input, one JSON object per line, and answers each with a line on
//! standard output, until the end of the input.
//!
//! `{"quantity": "100m"}` is answered with `{"milli": 100, "value": 1}`. `{"pod": {…}}` is answered with the
//! amounts among the pod's facts and with its share of its node's usage. Invalid input is answered with `{"error":
//! "…"}`.

use std::{
    error::Error,
    io::{self, BufRead, BufWriter, Write},
};

use serde::Deserialize;
use serde_json::value::RawValue;

mod answer;

/// One line of the input.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Question<'a> {
    /// A quantity as text.
    Quantity(String),
    /// A pod as the apiserver writes it.
    #[serde(borrow)]
    Pod(&'a RawValue),
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let line = line?;
        let answer = match serde_json::from_str(&line)? {
            Question::Quantity(text) => answer::quantity(&text),
            Question::Pod(pod) => answer::pod(pod.get().as_bytes()),
        };
        writeln!(out, "{answer}")?;
    }
    Ok(out.flush()?)
}
