//! The body of preempt, `ExtenderPreemptionArgs`, and its reply, `ExtenderPreemptionResult`.
//!
//! Candidates arrive as a map from node name to victims, with full pod objects (`nodeCacheCapable: false`) or only
//! with UIDs. In both cases the reply is a map to UIDs. It is written from candidates of the request, and cannot
//! contain a null, which would crash kube-scheduler.

use std::{collections::HashSet, ops::Range};

use bytes::Bytes;
use extender_apiserver::text::utf8;
use extender_gateway_core::preempt::Candidate;
use foldhash::{HashMap, HashMapExt};

use super::{
    WireError,
    json::{self, Cursor, key_is, name_fits},
    reply::Body,
    request::{MOST_NODES, bounded, not_one, pod_object},
};

/// The most victims on one node. Nodes run some hundred pods.
const MOST_ON_A_NODE: usize = 10_000;
/// The most victims of a request. kube-scheduler sends a tenth of the nodes, each with some of its pods.
const MOST_VICTIMS: usize = 500_000;

/// A preempt request.
#[derive(Debug)]
pub struct PreemptRequest {
    body: Bytes,
    pod: Range<usize>,
    nodes: Vec<Offered>,
}

/// The pods that kube-scheduler would evict on one node.
#[derive(Debug)]
struct Offered {
    name: String,
    victims: Vec<Victim>,
    pdb_violations: i64,
}

#[derive(Debug)]
struct Victim {
    uid: String,
    /// The range of the object in the body; `None` if only the UID was sent.
    object: Option<Range<usize>>,
}

impl PreemptRequest {
    /// Slices a body. Keys are treated as in [`super::Request::read`]; if a node is named twice, the last one
    /// counts, as in Go. A node without victims is a placeholder: newer kube-schedulers send one where only an extender
    /// rejected the node, so that an extender can name victims.
    ///
    /// # Errors
    /// The JSON is malformed as far as it is read, the pod is missing, not exactly one of `NodeNameToVictims` and
    /// `NodeNameToMetaVictims` is set, a victim has no UID or occurs twice on a node, or there are more nodes or
    /// victims than any cluster has.
    pub fn read(body: Bytes) -> Result<Self, WireError> {
        let (mut pod, mut victims, mut meta_victims) = (None, None, None);
        let mut cursor = Cursor::new(&body);
        cursor.object(|cursor, key| {
            if key_is(key, "Pod") {
                pod = cursor.optional(pod_object)?;
            } else if key_is(key, "NodeNameToVictims") {
                victims = cursor.optional(|cursor| nodes(cursor, true))?;
            } else if key_is(key, "NodeNameToMetaVictims") {
                meta_victims = cursor.optional(|cursor| nodes(cursor, false))?;
            } else {
                cursor.value()?;
            }
            Ok(())
        })?;
        cursor.end()?;
        let pod = pod.ok_or_else(|| WireError::whole("the request has no Pod"))?;
        let nodes = match (victims, meta_victims) {
            (Some(nodes), None) | (None, Some(nodes)) => nodes,
            (Some(_), Some(_)) => return Err(not_one("both NodeNameToVictims and NodeNameToMetaVictims")),
            (None, None) => return Err(not_one("neither NodeNameToVictims nor NodeNameToMetaVictims")),
        };
        nodes.iter().try_for_each(Offered::check)?;
        Ok(Self { body, pod, nodes })
    }

    /// The pod's JSON.
    pub fn pod(&self) -> Bytes {
        self.body.slice(self.pod.clone())
    }

    /// The offered candidates, in the order of the request. A candidate's node is its position.
    pub fn candidates(&self) -> Vec<Candidate> {
        (0..).zip(&self.nodes).map(|(node, offered)| offered.candidate(node)).collect()
    }

    /// The number of offered nodes.
    pub fn count(&self) -> u32 {
        u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
    }

    /// The name of the node at a position.
    pub fn name(&self, node: u32) -> &str {
        &self.nodes[node as usize].name
    }

    /// The JSON of the victims on the node at a position, by UID; empty if only UIDs were sent.
    pub fn objects(&self, node: u32) -> HashMap<&str, Bytes> {
        let victims = &self.nodes[node as usize].victims;
        let object = |victim: &Victim| Some(self.body.slice(victim.object.clone()?));
        victims.iter().filter_map(|victim| Some((victim.uid.as_str(), object(victim)?))).collect()
    }
}

impl Offered {
    fn candidate(&self, node: u32) -> Candidate {
        let victims = self.victims.iter().map(|victim| victim.uid.clone()).collect();
        Candidate { node, victims, pdb_violations: self.pdb_violations }
    }

    fn check(&self) -> Result<(), WireError> {
        let mut uids = HashSet::new();
        match self.victims.iter().find(|victim| !uids.insert(&victim.uid)) {
            Some(twice) => {
                Err(WireError::whole(format!("node {} has victim {} twice", self.name, twice.uid)))
            }
            None => Ok(()),
        }
    }
}

/// The reply: the remaining candidates, which are those of this request.
pub fn preempted(request: &PreemptRequest, left: &[Candidate]) -> Body {
    let mut out = br#"{"NodeNameToMetaVictims":{"#.to_vec();
    for (at, candidate) in left.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        json::push_string(&mut out, request.name(candidate.node));
        push_victims(&mut out, candidate);
    }
    out.extend_from_slice(b"}}");
    out.into()
}

fn push_victims(out: &mut Vec<u8>, candidate: &Candidate) {
    out.extend_from_slice(br#":{"Pods":["#);
    for (at, uid) in candidate.victims.iter().enumerate() {
        out.extend_from_slice(if at > 0 { br#",{"UID":"# } else { br#"{"UID":"# });
        json::push_string(out, uid);
        out.push(b'}');
    }
    out.extend_from_slice(br#"],"NumPDBViolations":"#);
    out.extend_from_slice(candidate.pdb_violations.to_string().as_bytes());
    out.push(b'}');
}

/// A map from node name to victims.
fn nodes(cursor: &mut Cursor<'_>, as_objects: bool) -> Result<Vec<Offered>, WireError> {
    let mut nodes: Vec<Offered> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let (mut seen, mut victims) = (0, 0);
    cursor.object(|cursor, key| {
        name_fits("a node's name", cursor.place(), key.len())?;
        let name = utf8(key.into()).into_owned();
        let offered = offered(cursor, name.clone(), as_objects)?;
        (seen, victims) = (seen + 1, victims + offered.victims.len());
        bounded(seen, MOST_NODES, "nodes", cursor)?;
        bounded(victims, MOST_VICTIMS, "victims", cursor)?;
        let place = *places.entry(name).or_insert(nodes.len());
        match nodes.get_mut(place) {
            Some(earlier) => *earlier = offered,
            None => nodes.push(offered),
        }
        Ok(())
    })?;
    Ok(nodes)
}

/// `Victims` or `MetaVictims`.
fn offered(cursor: &mut Cursor<'_>, name: String, as_objects: bool) -> Result<Offered, WireError> {
    let mut offered = Offered { name, victims: Vec::new(), pdb_violations: 0 };
    if cursor.take_null() {
        return Ok(offered);
    }
    cursor.object(|cursor, key| {
        if key_is(key, "Pods") {
            offered.victims.clear();
            if !cursor.take_null() {
                cursor.array(|cursor| {
                    offered.victims.push(victim(cursor, as_objects)?);
                    bounded(offered.victims.len(), MOST_ON_A_NODE, "victims on a node", cursor)
                })?;
            }
        } else if key_is(key, "NumPDBViolations") {
            offered.pdb_violations = cursor.optional(integer)?.unwrap_or(0);
        } else {
            cursor.value()?;
        }
        Ok(())
    })?;
    Ok(offered)
}

/// A pod object, whose UID is in its metadata, or a `MetaPod`: `{"UID": …}`.
fn victim(cursor: &mut Cursor<'_>, as_objects: bool) -> Result<Victim, WireError> {
    cursor.peek();
    let start = cursor.place();
    let uid = if as_objects { uid_of(cursor)? } else { nullable_member(cursor, "UID", uid)? };
    match uid.filter(|uid| !uid.is_empty()) {
        Some(uid) => Ok(Victim { uid, object: as_objects.then(|| start..cursor.place()) }),
        None => Err(WireError::at(start, "a victim without UID")),
    }
}

/// The UID in the metadata of an object. Go merges metadata that is there twice.
fn uid_of(cursor: &mut Cursor<'_>) -> Result<Option<String>, WireError> {
    let mut found = None;
    cursor.optional(|cursor| {
        cursor.member("metadata", |cursor| {
            found = nullable_member(cursor, "uid", uid)?.or(found.take());
            Ok(())
        })
    })?;
    Ok(found)
}

/// Reads a member of an object; `None` if it is missing or null, or the object is.
fn nullable_member<T>(
    cursor: &mut Cursor<'_>,
    name: &str,
    read: fn(&mut Cursor<'_>) -> Result<T, WireError>,
) -> Result<Option<T>, WireError> {
    let member = cursor.optional(|cursor| cursor.member(name, |cursor| cursor.optional(read)))?;
    Ok(member.flatten().flatten())
}

fn uid(cursor: &mut Cursor<'_>) -> Result<String, WireError> {
    let string = cursor.name("a UID")?;
    cursor.text(string).map(Into::into)
}

fn integer(cursor: &mut Cursor<'_>) -> Result<i64, WireError> {
    let place = cursor.place();
    let range = cursor.value()?;
    cursor.number(range).ok_or_else(|| WireError::at(place, "NumPDBViolations is not a whole number"))
}

#[cfg(test)]
mod tests;
