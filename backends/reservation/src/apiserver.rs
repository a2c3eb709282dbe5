//! A small apiserver for tests: reservations, pods and nodes with optimistic concurrency, lists, watches, Bindings, and
//! faults. Without I/O: a test connects it to a client in memory or on a socket.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

const RESERVATIONS: &str = "/apis/scheduling.extender-gateway.io/v1alpha1/reservations";
const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/shop/leases";

/// What goes wrong with one request.
pub(crate) enum RequestFault {
    /// It is refused with this status and has no effect.
    Refused(u16),
    /// It has its effect, and the answer is an error of the server.
    Lost,
    /// It has no effect, and the answer is an error of the server.
    LostBefore,
    /// Something else happens just before it.
    Meanwhile(Box<dyn FnOnce(&Apiserver) + Send>),
}

#[derive(Default)]
struct Stored {
    version: u64,
    /// By list path and NAMESPACE/NAME, or NAME.
    objects: BTreeMap<(&'static str, String), Value>,
    /// List path, version and event.
    events: Vec<(&'static str, u64, Value)>,
    /// Each for the first request whose method and path contain the text.
    faults: VecDeque<(String, RequestFault)>,
    /// Method and path of all writes.
    writes: Vec<String>,
    /// Pods of this namespace are not created.
    refused: String,
}

/// The apiserver. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Apiserver {
    stored: Arc<Mutex<Stored>>,
}

impl Stored {
    fn put(&mut self, list: &'static str, name: &str, mut object: Value, kind: &str) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let key = (list, name.to_owned());
        if kind == "DELETED" {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key, object.clone());
        }
        self.events.push((list, self.version, json!({"type": kind, "object": object})));
        object
    }

    fn since(&self, version: u64) -> impl Iterator<Item = &(&'static str, u64, Value)> {
        self.events[self.events.partition_point(|(_, of, _)| *of <= version)..].iter()
    }

    fn fault(&mut self, request: &str) -> Option<RequestFault> {
        let at = self.faults.iter().position(|(text, _)| request.contains(text))?;
        self.faults.remove(at).map(|(_, fault)| fault)
    }
}

pub(crate) fn status(code: u16, message: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "status": "Failure", "code": code, "message": message}))
}

impl Apiserver {
    pub(crate) fn fault(&self, request: &str, fault: RequestFault) {
        self.stored.lock().unwrap().faults.push_back((request.to_owned(), fault));
    }

    /// The faults that no request has met yet.
    pub(crate) fn faults(&self) -> usize {
        self.stored.lock().unwrap().faults.len()
    }

    /// Method and path of all writes so far, which are forgotten.
    pub(crate) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.stored.lock().unwrap().writes)
    }

    pub(crate) fn create_node(&self, name: &str) {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}});
        self.stored.lock().unwrap().put(NODES, name, node, "ADDED");
    }

    pub(crate) fn delete_node(&self, name: &str) {
        self.delete(NODES, name);
    }

    pub(crate) fn delete_pod(&self, name: &str) {
        self.delete(PODS, name);
    }

    pub(crate) fn delete_reservation(&self, name: &str) {
        self.delete(RESERVATIONS, name);
    }

    fn delete(&self, list: &'static str, name: &str) {
        let mut stored = self.stored.lock().unwrap();
        let object = stored.objects[&(list, name.to_owned())].clone();
        stored.put(list, name, object, "DELETED");
    }

    /// A pod of namespace shop, with its name as UID.
    pub(crate) fn create_pod(&self, name: &str) {
        self.create_pod_of("shop", name, &json!([]));
    }

    /// A pod that requests this.
    pub(crate) fn create_pod_with(&self, namespace: &str, name: &str, milli_cpu: i64) {
        let requests = json!({"cpu": format!("{milli_cpu}m")});
        self.create_pod_of(namespace, name, &json!([{"name": "c", "resources": {"requests": requests}}]));
    }

    fn create_pod_of(&self, namespace: &str, name: &str, containers: &Value) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name, "uid": name},
            "spec": {"containers": containers}, "status": {"phase": "Pending"},
        });
        self.stored.lock().unwrap().put(PODS, &format!("{namespace}/{name}"), pod, "ADDED");
    }

    /// All Reservations, and the names of all nodes.
    pub(crate) fn reservations(&self) -> Vec<Value> {
        let stored = self.stored.lock().unwrap();
        let all = stored.objects.iter().filter(|((list, _), _)| *list == RESERVATIONS);
        all.map(|(_, object)| object.clone()).collect()
    }

    pub(crate) fn nodes(&self) -> Vec<String> {
        let stored = self.stored.lock().unwrap();
        let all = stored.objects.keys().filter(|(list, _)| *list == NODES);
        all.map(|(_, name)| name.clone()).collect()
    }

    /// The version of the latest change.
    pub(crate) fn version(&self) -> u64 {
        self.stored.lock().unwrap().version
    }

    /// The version of the latest change, and whether since this version a node has changed, or a pod on one has gone.
    pub(crate) fn wakes(&self, version: u64) -> (u64, bool) {
        let stored = self.stored.lock().unwrap();
        let wakes = |(list, _, event): &(&'static str, u64, Value)| {
            let is_gone = event["type"] == "DELETED" || event["object"]["status"]["phase"] == "Succeeded";
            let was_placed = event["object"]["spec"]["nodeName"].is_string();
            *list == NODES || *list == PODS && is_gone && was_placed
        };
        (stored.version, stored.since(version).any(wakes))
    }

    /// Creates a Reservation with its name as UID for the pods of namespace shop, and with this status.
    pub(crate) fn create_reservation(&self, name: &str, spec: &Value, status: &Value) {
        let mut object = json!({
            "apiVersion": "scheduling.extender-gateway.io/v1alpha1", "kind": "Reservation",
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "template": {"metadata": {"namespace": "shop"}, "spec": {"containers": [{"name": "c"}]}},
                "owners": [{"labelSelector": {}, "namespaces": ["shop"]}],
            },
            "status": status,
        });
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        self.stored.lock().unwrap().put(RESERVATIONS, name, object, "ADDED");
    }

    pub(crate) fn reservation(&self, name: &str) -> Value {
        self.stored.lock().unwrap().objects[&(RESERVATIONS, name.to_owned())].clone()
    }

    pub(crate) fn node(&self, name: &str) -> Value {
        self.stored.lock().unwrap().objects[&(NODES, name.to_owned())].clone()
    }

    /// As if there were no such namespace.
    pub(crate) fn refuse_pods_of(&self, namespace: &str) {
        namespace.clone_into(&mut self.stored.lock().unwrap().refused);
    }

    /// All pods by NAMESPACE/NAME.
    pub(crate) fn pods(&self) -> BTreeMap<String, Value> {
        let stored = self.stored.lock().unwrap();
        let pods = stored.objects.iter().filter(|((list, _), _)| *list == PODS);
        pods.map(|((_, name), pod)| (name.clone(), pod.clone())).collect()
    }

    pub(crate) fn edit_reservation(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.edit(RESERVATIONS, name, edit);
    }

    pub(crate) fn edit_pod(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.edit(PODS, name, edit);
    }

    /// The same while watches are behind: they do not tell of it.
    pub(crate) fn edit_pod_unseen(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut stored = self.stored.lock().unwrap();
        edit(stored.objects.get_mut(&(PODS, name.to_owned())).unwrap());
    }

    fn edit(&self, list: &'static str, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut stored = self.stored.lock().unwrap();
        let mut object = stored.objects[&(list, name.to_owned())].clone();
        edit(&mut object);
        stored.put(list, name, object, "MODIFIED");
    }

    /// The answer to a request: its status, and its body, which of a watch has several lines.
    pub(crate) fn answer(&self, method: &str, path: &str, query: &str, body: &[u8]) -> (u16, String) {
        let request = format!("{method} {path}");
        let fault = self.stored.lock().unwrap().fault(&request);
        match fault {
            Some(RequestFault::Refused(code)) => {
                let (code, status) = status(code, "refused");
                return (code, status.to_string());
            }
            Some(RequestFault::LostBefore) => return (500, status(500, "lost").1.to_string()),
            Some(RequestFault::Lost) => {
                self.handle(method, path, body);
                return (500, status(500, "lost").1.to_string());
            }
            Some(RequestFault::Meanwhile(event)) => event(self),
            None => {}
        }
        if method == "GET" && query.contains("watch=") {
            return (200, self.events(path, query));
        }
        let (code, answer) =
            match (method, [RESERVATIONS, PODS, NODES].into_iter().find(|list| *list == path)) {
                ("GET", Some(list)) => (200, self.list(list)),
                _ => self.handle(method, path, body),
            };
        (code, answer.to_string())
    }

    fn list(&self, list: &'static str) -> Value {
        let stored = self.stored.lock().unwrap();
        let items: Vec<_> =
            stored.objects.iter().filter(|((of, _), _)| *of == list).map(|(_, item)| item).collect();
        json!({"metadata": {"resourceVersion": stored.version.to_string()}, "items": items})
    }

    /// The events since the version of the query, after which the watch ends.
    fn events(&self, path: &str, query: &str) -> String {
        let from = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion=")).unwrap();
        let from: u64 = from.parse().unwrap();
        let stored = self.stored.lock().unwrap();
        let events = stored.since(from).filter(|(list, ..)| *list == path);
        events.flat_map(|(.., event)| [event.to_string(), "\n".to_owned()]).collect()
    }

    fn handle(&self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        let body: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(body).unwrap() };
        if method != "GET" {
            self.stored.lock().unwrap().writes.push(format!("{method} {path}"));
        }
        if let Some(name) = path.strip_prefix(LEASES) {
            return self.lease(method, name.trim_start_matches('/'), body);
        }
        if let Some(rest) = path.strip_prefix("/api/v1/namespaces/") {
            let (namespace, rest) = rest.split_once("/pods").unwrap();
            return self.pod(method, namespace, rest.trim_start_matches('/'), body);
        }
        let found = [RESERVATIONS, NODES].into_iter().find_map(|list| Some((list, path.strip_prefix(list)?)));
        let Some((list, name)) = found else { return status(404, "no such path") };
        match (method, name.trim_start_matches('/').split_once('/')) {
            ("GET", None) => self.get(list, name.trim_start_matches('/')),
            ("PUT", Some((name, "status"))) => self.put_status(name, &body),
            ("PATCH", None) => self.annotated(list, name.trim_start_matches('/'), &body),
            ("DELETE", None) => self.collected(name.trim_start_matches('/'), &body),
            _ => status(405, "not allowed"),
        }
    }

    fn get(&self, list: &'static str, name: &str) -> (u16, Value) {
        let object = self.stored.lock().unwrap().objects.get(&(list, name.to_owned())).cloned();
        object.map_or_else(|| status(404, "not found"), |object| (200, object))
    }

    fn annotated(&self, list: &'static str, name: &str, patch: &Value) -> (u16, Value) {
        let mut stored = self.stored.lock().unwrap();
        let Some(mut object) = stored.objects.get(&(list, name.to_owned())).cloned() else {
            return status(404, "not found");
        };
        for (key, value) in patch["metadata"]["annotations"].as_object().unwrap() {
            object["metadata"]["annotations"][key] = value.clone();
        }
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.retain(|_, value| !value.is_null());
        }
        (200, stored.put(list, name, object, "MODIFIED"))
    }

    /// A Reservation of this version.
    fn collected(&self, name: &str, options: &Value) -> (u16, Value) {
        let mut stored = self.stored.lock().unwrap();
        let Some(object) = stored.objects.get(&(RESERVATIONS, name.to_owned())).cloned() else {
            return status(404, "not found");
        };
        for precondition in ["resourceVersion", "uid"] {
            if options["preconditions"][precondition] != object["metadata"][precondition] {
                return status(409, "the object has been modified");
            }
        }
        (200, stored.put(RESERVATIONS, name, object, "DELETED"))
    }

    fn lease(&self, method: &str, name: &str, lease: Value) -> (u16, Value) {
        if method == "GET" {
            return self.get(LEASES, name);
        }
        let mut stored = self.stored.lock().unwrap();
        let name = lease["metadata"]["name"].as_str().unwrap().to_owned();
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
        let old = stored.objects.get(&(LEASES, name.clone())).map_or(Value::Null, version);
        if old != version(&lease) {
            return status(409, "the object has been modified");
        }
        (200, stored.put(LEASES, &name, lease, "MODIFIED"))
    }

    fn put_status(&self, name: &str, body: &Value) -> (u16, Value) {
        let mut stored = self.stored.lock().unwrap();
        let Some(mut object) = stored.objects.get(&(RESERVATIONS, name.to_owned())).cloned() else {
            return status(404, "not found");
        };
        for precondition in ["resourceVersion", "uid"] {
            assert!(body["metadata"][precondition].is_string(), "a write without precondition: {body}");
            if body["metadata"][precondition] != object["metadata"][precondition] {
                return status(409, "the object has been modified");
            }
        }
        object["status"] = body["status"].clone();
        (200, stored.put(RESERVATIONS, name, object, "MODIFIED"))
    }

    fn pod(&self, method: &str, namespace: &str, rest: &str, body: Value) -> (u16, Value) {
        let key = |name: &str| format!("{namespace}/{name}");
        match (method, rest.split_once('/')) {
            ("GET", None) if rest.is_empty() => (200, self.list(PODS)),
            ("GET", None) => self.get(PODS, &key(rest)),
            ("POST", None) => self.create(namespace, body),
            ("POST", Some((name, "binding"))) => self.bind(&key(name), &body),
            ("DELETE", None) => self.removed(&key(rest), &body),
            ("PATCH", None) => self.opened(&key(rest), &body),
            _ => status(405, "not allowed"),
        }
    }

    fn create(&self, namespace: &str, mut pod: Value) -> (u16, Value) {
        let mut stored = self.stored.lock().unwrap();
        if stored.refused == namespace {
            return status(404, &format!("namespaces \"{namespace}\" not found"));
        }
        let prefix = pod["metadata"]["generateName"].as_str().unwrap();
        let name = format!("{prefix}{}", stored.version);
        pod["metadata"]["namespace"] = namespace.into();
        pod["metadata"]["name"] = name.as_str().into();
        pod["metadata"]["uid"] = format!("uid-{name}").into();
        (201, stored.put(PODS, &format!("{namespace}/{name}"), pod, "ADDED"))
    }

    fn bind(&self, key: &str, binding: &Value) -> (u16, Value) {
        let mut stored = self.stored.lock().unwrap();
        let Some(mut pod) = stored.objects.get(&(PODS, key.to_owned())).cloned() else {
            return status(404, "pod not found");
        };
        if pod["spec"]["nodeName"].is_string() || pod["metadata"]["uid"] != binding["metadata"]["uid"] {
            return status(409, "it is bound, or has another UID");
        }
        pod["spec"]["nodeName"] = binding["target"]["name"].clone();
        stored.put(PODS, key, pod, "MODIFIED");
        (201, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
    }

    fn removed(&self, key: &str, options: &Value) -> (u16, Value) {
        let mut stored = self.stored.lock().unwrap();
        let Some(pod) = stored.objects.get(&(PODS, key.to_owned())).cloned() else {
            return status(404, "pod not found");
        };
        assert_eq!(options["gracePeriodSeconds"], 0);
        if pod["metadata"]["uid"] != options["preconditions"]["uid"] {
            return status(409, "another UID");
        }
        (200, stored.put(PODS, key, pod, "DELETED"))
    }

    fn opened(&self, key: &str, patch: &Value) -> (u16, Value) {
        let mut stored = self.stored.lock().unwrap();
        let Some(mut pod) = stored.objects.get(&(PODS, key.to_owned())).cloned() else {
            return status(404, "pod not found");
        };
        if pod["metadata"]["uid"] != patch["metadata"]["uid"] {
            return status(409, "another UID");
        }
        // A strategic merge patch, in which gates are merged by name.
        let removed = patch["spec"]["schedulingGates"].as_array().unwrap();
        assert_eq!(removed.len(), 1, "{patch}");
        let removed = &removed[0];
        assert_eq!(removed["$patch"], "delete");
        let gates = pod["spec"]["schedulingGates"].as_array_mut().unwrap();
        gates.retain(|gate| gate["name"] != removed["name"]);
        if gates.is_empty() {
            pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
        }
        (200, stored.put(PODS, key, pod, "MODIFIED"))
    }
}
