//! The Reservation as the apiserver has it, and as the policy uses it.
//!
//! Fields that are unknown are ignored. [`parse`] turns an object into a [`Reservation`], whose spec can be invalid: the
//! controller then says so in its status, and other objects are not affected.

use std::collections::BTreeMap;

use extender_config::go_duration;
use extender_policy_sdk::Resources;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    affinity::{Admission, Taint},
    amounts::{self, ResourceList},
    owners::{Owners, Rule},
    ports::{self, HostPort},
    recorded::Recorded,
    room::{Claim, MAX_CLAIMS, Phase, Room},
};

/// The API group of Reservations, their version, kind and plural.
pub(super) const GROUP: &str = "scheduling.extender-gateway.io";
pub(super) const API_VERSION: &str = "scheduling.extender-gateway.io/v1alpha1";
pub(super) const KIND: &str = "Reservation";
/// The path of all Reservations.
pub(super) const PATH: &str = "/apis/scheduling.extender-gateway.io/v1alpha1/reservations";

/// The most characters of a message in the status.
const LONGEST_MESSAGE: usize = 1_000;

/// A Reservation that can be used, as of one version.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reservation {
    pub(super) name: String,
    pub(super) uid: String,
    /// A later version has a larger number.
    pub(super) version: u64,
    pub(super) terms: Result<Terms, String>,
    pub(super) status: Status,
    /// `allocatable` and `owners` of the status.
    pub(super) room: Room,
    /// What pods request whose claims this replica is writing, by their UIDs.
    pub(super) pending: BTreeMap<String, Resources>,
}

/// What a valid spec says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) owners: Owners,
    pub(super) expires: Option<Timestamp>,
    /// Whether the first owner takes it whole.
    pub(super) once: bool,
    pub(super) allocate: AllocatePolicy,
    /// Of the template, which are kept with the room.
    pub(super) ports: Vec<HostPort>,
    /// The namespace of the placeholder pod.
    pub(super) namespace: String,
    pub(super) admission: Admission,
}

/// The part of an object that decides whether it can be used at all.
#[derive(Debug, Deserialize)]
#[serde(rename = "Object")]
struct StoredObject {
    metadata: Metadata,
    #[serde(default)]
    spec: Value,
    status: Option<Status>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    uid: String,
    resource_version: String,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    template: Template,
    owners: Vec<Rule>,
    ttl: Option<String>,
    expires: Option<Timestamp>,
    allocate_once: Option<bool>,
    #[serde(default)]
    unschedulable: bool,
    #[serde(default)]
    taints: Vec<Taint>,
    #[serde(default)]
    allocate_policy: AllocatePolicy,
}

/// Where an owner's room comes from. What the reservation does not list always comes from the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum AllocatePolicy {
    /// From the reservation, and what is not left in it from the node.
    #[default]
    Aligned,
    /// From the reservation alone.
    Restricted,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Template {
    metadata: TemplateMetadata,
    spec: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateMetadata {
    namespace: Option<String>,
}

/// All of the status. Only this policy writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    pub(super) phase: Phase,
    /// Empty as long as there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) node_name: String,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    allocatable: ResourceList,
    /// The sum of the owners' requests, for people.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    allocated: ResourceList,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owners: Vec<OwnerStatus>,
    /// UID of the placeholder pod; empty as long as there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) placeholder: String,
    /// Of the placeholder's spec; see [`Recorded`].
    #[serde(skip_serializing_if = "String::is_empty")]
    placeholder_digest: String,
    /// What the placeholder requests.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    placeholder_requests: ResourceList,
    /// The pod that had one for a single owner, and has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_owner: Option<OwnerStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) conditions: Vec<Condition>,
}

/// A pod that has a part of the room.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerStatus {
    namespace: String,
    name: String,
    uid: String,
    #[serde(default)]
    requests: ResourceList,
    allocated_at: Timestamp,
    #[serde(default)]
    bound: bool,
}

/// Mirrors `metav1.Condition`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    #[serde(default)]
    pub(super) message: String,
    last_transition_time: Timestamp,
}

/// A condition that is to be set.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewCondition<'c> {
    /// `Scheduled`, `Ready`, `NodeUsable`, `OwnersFit` or `InUse`.
    pub(super) kind: &'c str,
    pub(super) holds: bool,
    /// One word in camel case.
    pub(super) reason: &'c str,
    /// At most 1,000 characters are kept.
    pub(super) message: &'c str,
}

/// Reads an object of the apiserver; `None` if it is being deleted.
///
/// # Errors
/// Metadata or status cannot be read: nothing is known about its room. An invalid spec is not an error.
pub(super) fn parse(json: &[u8]) -> Result<Option<Reservation>, String> {
    let StoredObject { metadata, spec, status } =
        serde_json::from_slice(json).map_err(|error| format!("it is not a Reservation: {error}"))?;
    let Metadata { name, uid, resource_version, creation_timestamp, deletion_timestamp, labels } = metadata;
    if deletion_timestamp.is_some() {
        return Ok(None);
    }
    let version = resource_version.parse().map_err(|_| "its resourceVersion is not a number".to_owned())?;
    let status = status.unwrap_or_default();
    let room = status.room().map_err(|wrong| format!("its status is invalid: {wrong}"))?;
    let terms = Terms::new(spec, labels, creation_timestamp);
    Ok(Some(Reservation { name, uid, version, terms, status, room, pending: BTreeMap::new() }))
}

impl Terms {
    fn new(
        spec: Value,
        labels: BTreeMap<String, String>,
        created: Option<Timestamp>,
    ) -> Result<Self, String> {
        let Spec { template, owners, ttl, expires, allocate_once, unschedulable, taints, allocate_policy } =
            serde_json::from_value(spec).map_err(|error| format!("spec: {error}"))?;
        let admission = Admission { labels, taints, unschedulable };
        admission.check()?;
        let ttl_ends = match ttl.as_deref() {
            None => None,
            Some(ttl) => Some(ends(created, ttl)?),
        };
        Ok(Self {
            owners: Owners::new(owners)?,
            expires: ttl_ends.into_iter().chain(expires).min(),
            once: allocate_once.unwrap_or(true),
            allocate: allocate_policy,
            ports: ports::of_template(&template.spec)
                .map_err(|error| format!("spec.template.spec: {error}"))?,
            namespace: template.metadata.namespace.unwrap_or_else(|| "default".to_owned()),
            admission,
        })
    }

    /// Whether it is over, by this clock.
    pub(super) fn expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

fn ends(created: Option<Timestamp>, ttl: &str) -> Result<Timestamp, String> {
    let parsed = go_duration::parse(ttl)
        .ok_or("spec.ttl is invalid; expected a duration such as 1h30m, at most a year")?;
    let created = created.ok_or("the object has no creationTimestamp, from which spec.ttl counts")?;
    created.checked_add(parsed).map_err(|_| "spec.ttl ends beyond the range of times".to_owned())
}

impl Reservation {
    /// The object to write with another status. It has the version of this one, so that the apiserver rejects a write that
    /// is based on an old state.
    pub(super) fn with_status(&self, status: &Status) -> Value {
        json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": self.name, "uid": self.uid, "resourceVersion": self.version.to_string()},
            "status": status,
        })
    }

    /// The status with another room, whose owners and sums it tells.
    pub(super) fn status_with(&self, room: &Room, phase: Phase) -> Status {
        let mut status = Status { phase, ..self.status.clone() };
        status.set_room(room);
        status
    }
}

impl Status {
    fn room(&self) -> Result<Room, String> {
        if self.owners.len() > MAX_CLAIMS {
            return Err(format!("there are {} owners; expected at most {MAX_CLAIMS}", self.owners.len()));
        }
        let allocatable =
            amounts::parse(&self.allocatable).map_err(|wrong| format!("allocatable: {wrong}"))?;
        let claims: Result<_, String> = self.owners.iter().map(OwnerStatus::claim).collect();
        Ok(Room::new(allocatable, claims?))
    }

    pub(super) fn set_room(&mut self, room: &Room) {
        self.allocatable = amounts::list(room.allocatable());
        self.allocated = amounts::list(room.allocated());
        self.owners = room.claims().iter().map(OwnerStatus::of).collect();
    }

    /// Records a placeholder pod.
    pub(super) fn record(&mut self, uid: String, recorded: &Recorded) {
        self.placeholder = uid;
        self.placeholder_digest.clone_from(&recorded.digest);
        self.placeholder_requests = amounts::list(&recorded.requests);
    }

    /// What was recorded of the placeholder; `None` if that was an older version, which recorded nothing.
    pub(super) fn recorded(&self) -> Option<Recorded> {
        let digest = Some(self.placeholder_digest.clone()).filter(|digest| !digest.is_empty())?;
        let requests = amounts::parse(&self.placeholder_requests).unwrap_or_default();
        Some(Recorded { digest, requests })
    }

    /// Keeps the pod that had the room, which has ended.
    pub(super) fn remember(&mut self, owner: &Claim) {
        self.last_owner = Some(OwnerStatus::of(owner));
    }

    /// When the latest of the conditions has changed.
    pub(super) fn changed_at(&self) -> Option<Timestamp> {
        self.conditions.iter().map(|condition| condition.last_transition_time).max()
    }

    /// Sets a condition that says otherwise, or otherwise why it does not hold, if the old one has for this long; one that is
    /// missing holds. Returns whether it is set, and its time: the next change has to wait as long.
    pub(super) fn flip(&mut self, new: NewCondition<'_>, after: SignedDuration, now: Timestamp) -> bool {
        let old = self.conditions.iter_mut().find(|condition| condition.kind == new.kind);
        let same =
            |old: &Condition| new.holds || new.message.chars().take(LONGEST_MESSAGE).eq(old.message.chars());
        let differs = |old: &Condition| (old.status == "True") != new.holds || !same(old);
        let is_due = |old: &Condition| now.duration_since(old.last_transition_time) >= after;
        let flips = old.as_deref().map_or(!new.holds, |old| differs(old) && is_due(old));
        if flips {
            if let Some(old) = old {
                old.last_transition_time = whole_seconds(now);
            }
            self.set_condition(new, now);
        }
        flips
    }

    /// Removes the conditions that tell owners to come what they can expect. Returns whether there were any.
    pub(super) fn expect_no_owners(&mut self) -> bool {
        let ends = |condition: &mut Condition| matches!(&*condition.kind, "NodeUsable" | "OwnersFit");
        self.conditions.extract_if(.., ends).count() > 0
    }

    /// Sets a condition. Its time changes with its status only.
    pub(super) fn set_condition(&mut self, new: NewCondition<'_>, now: Timestamp) {
        let NewCondition { kind, holds, reason, message } = new;
        let status = if holds { "True" } else { "False" };
        let message: String = message.chars().take(LONGEST_MESSAGE).collect();
        let last_transition_time = whole_seconds(now);
        let (kind, status, reason) = (kind.to_owned(), status.to_owned(), reason.to_owned());
        let new = Condition { kind, status, reason, message, last_transition_time };
        match self.conditions.iter_mut().find(|condition| condition.kind == new.kind) {
            None => self.conditions.push(new),
            Some(old) if old.status == new.status => {
                *old = Condition { last_transition_time: old.last_transition_time, ..new };
            }
            Some(old) => *old = new,
        }
    }
}

impl OwnerStatus {
    fn claim(&self) -> Result<Claim, String> {
        let Self { namespace, name, uid, requests, allocated_at, bound } = self;
        Ok(Claim {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: uid.clone(),
            requests: amounts::parse(requests)
                .map_err(|wrong| format!("requests of owner {uid:?}: {wrong}"))?,
            since: *allocated_at,
            bound: *bound,
        })
    }

    fn of(claim: &Claim) -> Self {
        let Claim { namespace, name, uid, requests, since, bound } = claim.clone();
        let requests = amounts::list(&requests);
        // Exact: it tells attempts from one another.
        Self { namespace, name, uid, requests, allocated_at: since, bound }
    }
}

/// As Kubernetes writes times.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> Value {
        json!({
            "apiVersion": API_VERSION, "kind": KIND,
            "metadata": {
                "name": "web", "uid": "r-1", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "template": {"metadata": {"namespace": "shop"}, "spec": {"containers": []}},
                "owners": [{"labelSelector": {}, "namespaces": ["shop"]}],
                "ttl": "1h",
            },
            "status": {
                "phase": "Available", "nodeName": "a", "allocatable": {"cpu": "2", "pods": "1"},
                "allocated": {"cpu": "77"}, "placeholder": "p-1",
                "owners": [{
                    "namespace": "shop", "name": "pod", "uid": "u-1", "requests": {"cpu": "500m"},
                    "allocatedAt": "2026-01-01T00:10:00Z",
                }],
            },
        })
    }

    fn parsed(object: &Value) -> Reservation {
        parse(object.to_string().as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn an_object_is_read_and_its_status_written() {
        let reservation = parsed(&object());
        let terms = reservation.terms.clone().unwrap();
        assert_eq!((terms.once, terms.namespace.as_str()), (true, "shop"));
        assert_eq!(terms.expires.unwrap().to_string(), "2026-01-01T01:00:00Z");
        assert!(terms.expired("2026-01-01T01:00:00Z".parse().unwrap()));
        assert!(!terms.expired("2026-01-01T00:59:59Z".parse().unwrap()));
        let status = reservation.status_with(&reservation.room, Phase::Succeeded);
        let mut expected = object()["status"].clone();
        expected["phase"] = "Succeeded".into();
        expected["allocatable"] = json!({"cpu": "2"});
        expected["allocated"] = json!({"cpu": "500m"});
        expected["owners"][0]["bound"] = false.into();
        let written = reservation.with_status(&status);
        assert_eq!(written["status"], expected);
        assert_eq!(written["metadata"], json!({"name": "web", "uid": "r-1", "resourceVersion": "7"}));
    }

    #[test]
    fn a_new_object_is_pending() {
        let mut new = object();
        new.as_object_mut().unwrap().remove("status");
        let reservation = parsed(&new);
        assert_eq!((reservation.status.phase, reservation.room), (Phase::Pending, Room::default()));
        new["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(parse(new.to_string().as_bytes()), Ok(None));
    }

    #[test]
    fn the_earlier_of_ttl_and_expires_counts() {
        let mut both = object();
        both["spec"]["expires"] = "2026-01-01T00:30:00+00:00".into();
        assert_eq!(parsed(&both).terms.unwrap().expires.unwrap().to_string(), "2026-01-01T00:30:00Z");
        both["spec"].as_object_mut().unwrap().remove("ttl");
        both["spec"].as_object_mut().unwrap().remove("expires");
        assert_eq!(parsed(&both).terms.unwrap().expires, None);
    }

    #[test]
    fn an_invalid_spec_is_told_and_an_invalid_status_makes_the_object_unusable() {
        for (pointer, value, expected) in [
            ("/spec", Value::Null, "spec: "),
            ("/spec/owners", json!("all"), "spec: invalid type"),
            ("/spec/owners", json!([]), "spec.owners has 0 rules"),
            ("/spec/ttl", json!("1 hour"), "spec.ttl is invalid"),
            ("/metadata/creationTimestamp", Value::Null, "no creationTimestamp"),
        ] {
            let mut object = object();
            *object.pointer_mut(pointer).unwrap() = value;
            let wrong = parsed(&object).terms.unwrap_err();
            assert!(wrong.contains(expected), "{pointer}: {wrong}");
        }
        for (pointer, value, expected) in [
            ("/metadata/name", json!(7), "it is not a Reservation"),
            ("/metadata/resourceVersion", json!("x"), "resourceVersion is not a number"),
            ("/status/phase", json!("Lost"), "unknown variant"),
            ("/status/allocatable/cpu", json!("-2"), "its status is invalid: allocatable: cpu"),
            ("/status/owners/0/requests/cpu", json!("many"), "requests of owner \"u-1\": cpu"),
            ("/status/owners/0/allocatedAt", json!("now"), "it is not a Reservation"),
        ] {
            let mut object = object();
            *object.pointer_mut(pointer).unwrap() = value;
            let wrong = parse(object.to_string().as_bytes()).unwrap_err();
            assert!(wrong.contains(expected), "{pointer}: {wrong}");
        }
        let mut crowded = object();
        crowded["status"]["owners"] = vec![crowded["status"]["owners"][0].clone(); MAX_CLAIMS + 1].into();
        assert!(parse(crowded.to_string().as_bytes()).unwrap_err().contains("1001 owners"));
    }

    /// Paths of all values in a JSON value.
    fn pointers(value: &Value, path: &str, found: &mut Vec<String>) {
        found.push(path.to_owned());
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(name, value)| pointers(value, &format!("{path}/{name}"), found));
            }
            Value::Array(items) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(at, item)| pointers(item, &format!("{path}/{at}"), found));
            }
            _ => {}
        }
    }

    #[test]
    fn no_value_in_any_place_panics() {
        let values = [
            Value::Null,
            json!(true),
            json!(-1),
            json!(1e300),
            json!(u64::MAX),
            json!(""),
            json!("\u{0}ä/9"),
            json!("9999-12-31T23:59:59Z"),
            json!("8760h"),
            json!([]),
            json!([[[]]]),
            json!({}),
            json!({"a": {"b": "9Ei"}}),
            json!(vec![json!({}); 2_000]),
        ];
        let mut found = Vec::new();
        pointers(&object(), "", &mut found);
        let now = Timestamp::UNIX_EPOCH;
        for (pointer, value) in
            found.iter().flat_map(|pointer| values.iter().map(move |value| (pointer, value)))
        {
            let mut changed = object();
            *changed.pointer_mut(pointer).unwrap() = value.clone();
            if let Ok(Some(reservation)) = parse(changed.to_string().as_bytes()) {
                let status = reservation.status_with(&reservation.room, Phase::Available);
                assert!(parse(reservation.with_status(&status).to_string().as_bytes()).is_ok(), "{changed}");
                let held = crate::room::held([&reservation], None, now);
                assert!(held.resources.milli_cpu >= 0);
            }
        }
    }

    #[test]
    fn the_time_of_a_condition_changes_with_its_status() {
        let (first, later) =
            ("2026-01-01T00:00:00Z".parse().unwrap(), "2026-01-01T01:00:00.5Z".parse().unwrap());
        let mut status = Status::default();
        let condition = |holds, message| NewCondition { kind: "Ready", holds, reason: "Because", message };
        status.set_condition(condition(false, "one"), first);
        status.set_condition(condition(false, "two"), later);
        assert_eq!(
            (&*status.conditions[0].message, status.conditions[0].last_transition_time),
            ("two", first)
        );
        status.set_condition(condition(true, &"ä".repeat(1_001)), later);
        let [condition] = &status.conditions[..] else { panic!("{status:?}") };
        assert_eq!(condition.last_transition_time.to_string(), "2026-01-01T01:00:00Z");
        assert_eq!((condition.message.chars().count(), &*condition.status), (1_000, "True"));
    }
}
