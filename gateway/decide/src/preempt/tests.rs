use bytes::Bytes;
use extender_gateway_object as object;
use extender_gateway_pace::fair_queue::Flow;

use super::*;

#[test]
fn a_victim_that_is_added_is_there_and_matters_less() {
    let pods = PodTable::new();
    for (uid, node, priority) in
        [("low", "n1", 9), ("same", "n1", 10), ("elsewhere", "n2", 0), ("nowhere", "", 0)]
    {
        let pod = serde_json::json!({"metadata": {"name": uid, "uid": uid}, "spec": {"nodeName": node, "priority": priority}});
        pods.apply(pod.to_string().as_bytes()).unwrap();
    }
    let body = r#"{"Pod":{"spec":{"priority":10}},"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"x"}]}}}"#;
    let request = Arc::new(PreemptRequest::read(Bytes::from_static(body.as_bytes())).unwrap());
    let json = request.pod();
    let pod = object::pod::parse(&json).unwrap();
    let call = PreemptCall { request: &request, pod: &pod, began: Instant::now(), flow: Flow::Own };
    for (uid, expected) in [
        ("low", Ok(())),
        ("same", Err("its priority 10 is not lower than the pod's, 10")),
        ("elsewhere", Err("it is not on node n1")),
        ("nowhere", Err("it is not on node n1")),
        ("x", Err("no such pod is known")),
    ] {
        assert_eq!(addable(Some(&pods), call, 0, uid), expected.map_err(str::to_owned), "{uid}");
        assert!(addable(None, call, 0, uid).is_err());
    }
}
