//! The replies of an extender, decoded as kube-scheduler decodes them. Fields are those of
//! `k8s.io/kube-scheduler/extender/v1`.

use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;

use super::json::{self, Object, first, value, whole};

/// `ExtenderFilterResult`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FilterReply {
    /// The names in `Nodes.items`; `None` without them.
    pub(super) nodes: Option<Vec<String>>,
    pub(super) node_names: Option<Vec<String>>,
    pub(super) failed: HashMap<String, String>,
    pub(super) unresolvable: HashMap<String, String>,
    pub(super) error: String,
}

impl FilterReply {
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let text = json::text(body);
        let mut reply = Self::default();
        for (name, raw) in object(&text)?.fields() {
            match &*name {
                "nodes" => {
                    reply.nodes = value("Nodes", raw).map_err(malformed)?.map(node_list).transpose()?;
                }
                "nodenames" => reply.node_names = names("NodeNames", raw)?,
                "failednodes" => merge("FailedNodes", raw, &mut reply.failed)?,
                "failedandunresolvablenodes" => {
                    merge("FailedAndUnresolvableNodes", raw, &mut reply.unresolvable)?;
                }
                "error" => set("Error", raw, &mut reply.error)?,
                _ => {}
            }
        }
        Ok(reply)
    }
}

/// `HostPriorityList`, in order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PrioritizeReply(pub(super) Vec<(String, i64)>);

impl PrioritizeReply {
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let text = json::text(body);
        let entries: Option<Vec<Option<Object<'_>>>> = first(&text).map_err(malformed)?;
        let entries = entries.unwrap_or_default().into_iter().map(|entry| {
            let (mut host, mut score) = (String::new(), 0);
            for (name, raw) in entry.unwrap_or_default().fields() {
                match &*name {
                    "host" => set("Host", raw, &mut host)?,
                    "score" => score = whole("Score", raw).map_err(malformed)?,
                    _ => {}
                }
            }
            Ok((host, score))
        });
        entries.collect::<Result<_, _>>().map(Self)
    }
}

/// `ExtenderPreemptionResult`: the victims on each node that stays.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PreemptReply(pub(super) BTreeMap<String, Victims>);

/// `MetaVictims`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Victims {
    pub(super) uids: Vec<String>,
    pub(super) pdb_violations: i64,
}

impl PreemptReply {
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let text = json::text(body);
        let mut kept = BTreeMap::new();
        for (name, raw) in object(&text)?.fields() {
            if name != "nodenametometavictims" {
                continue;
            }
            match value::<Object<'_>>("NodeNameToMetaVictims", raw).map_err(malformed)? {
                None => kept.clear(),
                Some(nodes) => {
                    for (node, victims) in nodes.entries() {
                        let victims = meta_victims(&node, victims)?;
                        kept.insert(node.into_owned(), victims);
                    }
                }
            }
        }
        Ok(Self(kept))
    }
}

/// `ExtenderBindingResult`: its error, empty for success.
#[derive(Debug, Default, PartialEq)]
pub(super) struct BindReply(pub(super) String);

impl BindReply {
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let text = json::text(body);
        let mut error = String::new();
        for (name, raw) in object(&text)?.fields() {
            if name == "error" {
                set("Error", raw, &mut error)?;
            }
        }
        Ok(Self(error))
    }
}

fn malformed(why: impl AsRef<str>) -> String {
    format!("the extender's reply cannot be read: {}", why.as_ref())
}

fn object(text: &str) -> Result<Object<'_>, String> {
    Ok(first(text).map_err(malformed)?.unwrap_or_default())
}

/// `null` leaves a text as it is.
fn set(field: &str, raw: &RawValue, to: &mut String) -> Result<(), String> {
    if let Some(given) = value(field, raw).map_err(malformed)? {
        *to = given;
    }
    Ok(())
}

/// A list of texts, in which `null` is an empty one.
fn names(field: &str, raw: &RawValue) -> Result<Option<Vec<String>>, String> {
    let names: Option<Vec<Option<String>>> = value(field, raw).map_err(malformed)?;
    Ok(names.map(|names| names.into_iter().map(Option::unwrap_or_default).collect()))
}

/// Adds entries to those of an earlier field of the name; `null` removes them.
fn merge(field: &str, raw: &RawValue, to: &mut HashMap<String, String>) -> Result<(), String> {
    match value::<HashMap<String, Option<String>>>(field, raw).map_err(malformed)? {
        None => to.clear(),
        Some(given) => to.extend(given.into_iter().map(|(node, text)| (node, text.unwrap_or_default()))),
    }
    Ok(())
}

/// The names of the nodes in a `NodeList`. Nothing else of them is read, so nothing else of them can be wrong.
fn node_list(list: Object<'_>) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for (name, raw) in list.fields() {
        if name == "items" {
            let items: Option<Vec<Option<Object<'_>>>> = value("Nodes.items", raw).map_err(malformed)?;
            let items = items.unwrap_or_default().into_iter();
            names = items.map(|item| node_name(item.unwrap_or_default())).collect::<Result<_, _>>()?;
        }
    }
    Ok(names)
}

fn node_name(node: Object<'_>) -> Result<String, String> {
    let mut name = String::new();
    for (field, raw) in node.fields().filter(|(field, _)| field == "metadata") {
        let metadata: Option<Object<'_>> =
            value(&format!("Nodes.items[].{field}"), raw).map_err(malformed)?;
        for (_, raw) in metadata.unwrap_or_default().fields().filter(|(field, _)| field == "name") {
            set("Nodes.items[].metadata.name", raw, &mut name)?;
        }
    }
    Ok(name)
}

/// kube-scheduler ends itself when a `MetaVictims` or one of its pods is null.
fn meta_victims(node: &str, raw: &RawValue) -> Result<Victims, String> {
    let field = format!("NodeNameToMetaVictims[{node:?}]");
    let null = |what: &str| malformed(format!("{field}{what} is null"));
    let victims: Object<'_> = value(&field, raw).map_err(malformed)?.ok_or_else(|| null(""))?;
    let mut read = Victims::default();
    for (name, raw) in victims.fields() {
        match &*name {
            "pods" => {
                let pods: Option<Vec<Option<Object<'_>>>> =
                    value(&format!("{field}.Pods"), raw).map_err(malformed)?;
                let pods = pods.unwrap_or_default().into_iter();
                read.uids = pods
                    .map(|pod| uid(&field, pod.ok_or_else(|| null(".Pods[]"))?))
                    .collect::<Result<_, _>>()?;
            }
            "numpdbviolations" => {
                read.pdb_violations = whole(&format!("{field}.NumPDBViolations"), raw).map_err(malformed)?;
            }
            _ => {}
        }
    }
    Ok(read)
}

fn uid(field: &str, pod: Object<'_>) -> Result<String, String> {
    let mut uid = String::new();
    for (_, raw) in pod.fields().filter(|(name, _)| name == "uid") {
        set(&format!("{field}.Pods[].UID"), raw, &mut uid)?;
    }
    Ok(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn map(entries: &[(&str, &str)]) -> HashMap<String, String> {
        entries.iter().map(|(node, text)| ((*node).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn filter_replies_are_read_as_go_reads_them() {
        let empty = FilterReply::default;
        let names = |names: &[&str]| FilterReply { node_names: Some(texts(names)), ..empty() };
        let nodes = |names: &[&str]| FilterReply { nodes: Some(texts(names)), ..empty() };
        let failed = |entries: &[(&str, &str)]| FilterReply { failed: map(entries), ..empty() };
        for (body, expected) in [
            ("null", empty()),
            ("{}", empty()),
            (" \n{\"NodeNames\":[\"a\"]}\n trash", names(&["a"])),
            (r#"{"NodeNames":["a"]} {"NodeNames":["b"]}"#, names(&["a"])),
            (r#"{"nodenames":["a"]}"#, names(&["a"])),
            (r#"{"nodeNames":["a",null]}"#, names(&["a", ""])),
            (r#"{"NODENAMES":["a"],"node_names":["b"]}"#, names(&["a"])),
            (r#"{"NodeNames":["a"],"nodeNames":["b"]}"#, names(&["b"])),
            (r#"{"NodeNames":["a"],"nodenames":null}"#, empty()),
            (r#"{"NodeNames":[]}"#, names(&[])),
            (r#"{"Nodes":null,"NodeNames":null}"#, empty()),
            (r#"{"Nodes":{}}"#, nodes(&[])),
            (r#"{"Nodes":{"items":null}}"#, nodes(&[])),
            (r#"{"Nodes":{"Items":[{"metadata":{"name":"a"}},null,{}]}}"#, nodes(&["a", "", ""])),
            (r#"{"FailedNodes":{"a":"x"},"failednodes":{"b":null}}"#, failed(&[("a", "x"), ("b", "")])),
            (r#"{"FailedNodes":{"a":"x"},"FailedNodes":null}"#, empty()),
            (
                r#"{"failedAndUnresolvableNodes":{"a":"x"},"FailedNodes":null}"#,
                FilterReply { unresolvable: map(&[("a", "x")]), ..empty() },
            ),
            (r#"{"Error":"no","error":null}"#, FilterReply { error: "no".into(), ..empty() }),
            (r#"{"Error":"\ud800"}"#, FilterReply { error: "\u{fffd}".into(), ..empty() }),
            (r#"{"unknown":{"deep":[1,2]},"Error":""}"#, empty()),
        ] {
            assert_eq!(FilterReply::read(body.as_bytes()), Ok(expected), "{body}");
        }
        let broken = FilterReply::read(b"{\"Error\":\"a\xffb\"}").unwrap();
        assert_eq!(broken.error, "a\u{fffd}b");
    }

    #[test]
    fn one_wrong_value_spoils_a_reply() {
        for (body, part) in [
            ("", "EOF"),
            (" ", "EOF"),
            ("[]", "expected an object"),
            ("\u{feff}{}", "expected value"),
            (r#"{"FailedNodes":{"a":1}}"#, "FailedNodes: invalid type: integer `1`, expected a string"),
            (r#"{"FailedNodes":["a"]}"#, "FailedNodes: invalid type: sequence, expected a map"),
            (r#"{"Error":{"code":1}}"#, "Error: invalid type: map, expected a string"),
            (r#"{"NodeNames":"a"}"#, "NodeNames: invalid type: string"),
            (r#"{"NodeNames":["a"],}"#, "trailing comma"),
            ("{\"Error\":\"a\tb\"}", "control character"),
            (r#"{"Nodes":[]}"#, "Nodes: invalid type: sequence, expected an object"),
            (r#"{"NodeNames":["a"]"#, "EOF"),
        ] {
            let error = FilterReply::read(body.as_bytes()).unwrap_err();
            assert!(error.starts_with("the extender's reply cannot be read: "), "{body}: {error}");
            assert!(error.contains(part), "{body}: {error}");
        }
    }

    #[test]
    fn scores_are_whole_numbers() {
        let read = |body: &str| PrioritizeReply::read(body.as_bytes());
        for (body, expected) in [
            ("null", &[][..]),
            ("[]", &[]),
            (r#"[{"Host":"a","Score":5},{"host":"b","SCORE":-1}]"#, &[("a", 5), ("b", -1)]),
            (
                r#"[{"Host":"a"},{"Score":3},null,{"Host":"a","Score":null}]"#,
                &[("a", 0), ("", 3), ("", 0), ("a", 0)],
            ),
            (r#"[{"Host":"a","Score":9223372036854775807}]"#, &[("a", i64::MAX)]),
            (r#"[{"Host":"a","Score":-0}]"#, &[("a", 0)]),
        ] {
            let expected = expected.iter().map(|(host, score)| ((*host).to_owned(), *score)).collect();
            assert_eq!(read(body), Ok(PrioritizeReply(expected)), "{body}");
        }
        for score in ["5.0", "5.5", "5e0", "\"5\"", "true", "9223372036854775808"] {
            let error = read(&format!(r#"[{{"Host":"a","Score":{score}}}]"#)).unwrap_err();
            assert!(error.contains(&format!("Score: {score} is not a whole number")), "{error}");
        }
        for body in
            ["{}", r#"{"Error":"no"}"#, r#"[{"Host":"a","Score":05}]"#, r#"[{"Host":"a","Score":+5}]"#]
        {
            read(body).unwrap_err();
        }
    }

    #[test]
    fn victims_are_named_by_uid() {
        let read = |body: &str| PreemptReply::read(body.as_bytes());
        let victims = |uids| Victims { pdb_violations: i64::from(uids == ["u", "v"]), uids: texts(uids) };
        let kept = |entries: &[(&str, &'static [&str])]| {
            Ok(PreemptReply(entries.iter().map(|(node, uids)| ((*node).to_owned(), victims(uids))).collect()))
        };
        for (body, expected) in [
            ("null", kept(&[])),
            ("{}", kept(&[])),
            (r#"{"NodeNameToMetaVictims":null}"#, kept(&[])),
            (r#"{"NodeNameToVictims":{"a":{"Pods":[]}}}"#, kept(&[])),
            (
                r#"{"nodeNameToMetaVictims":{"a":{"pods":[{"uid":"u"},{"UID":"v"}],"numPDBViolations":1}}}"#,
                kept(&[("a", &["u", "v"])]),
            ),
            (r#"{"NodeNameToMetaVictims":{"a":{}}}"#, kept(&[("a", &[])])),
            (r#"{"NodeNameToMetaVictims":{"a":{"Pods":null}}}"#, kept(&[("a", &[])])),
        ] {
            assert_eq!(read(body), expected, "{body}");
        }
        for (body, part) in [
            (r#"{"NodeNameToMetaVictims":{"a":null}}"#, r#"NodeNameToMetaVictims["a"] is null"#),
            (r#"{"NodeNameToMetaVictims":{"a":{"Pods":[null]}}}"#, ".Pods[] is null"),
            (r#"{"NodeNameToMetaVictims":{"a":{"NumPDBViolations":"1"}}}"#, "NumPDBViolations"),
            (r#"{"NodeNameToMetaVictims":[]}"#, "expected an object"),
        ] {
            let error = read(body).unwrap_err();
            assert!(error.contains(part), "{body}: {error}");
        }
    }
}
