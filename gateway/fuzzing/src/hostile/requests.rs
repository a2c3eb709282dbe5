//! Bodies of calls.

use proptest::prelude::*;

use super::json;
use crate::calls;

const ABOUT_NODES: [&str; 3] = [
    r#"{"Pod":{"metadata":{"name":"p","uid":"u"}},"Nodes":null,"NodeNames":["a","b\"","a","\u00e9","c"]}"#,
    r#"{"Pod":{},"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b","labels":{"x":"y"}}}]},"NodeNames":null}"#,
    r#"{"pod":{"spec":{}}, "nodes":{"items":[{"kind":"Node","metadata":{"labels":null,"name":"\u0061"}},{"metadata":{"name":"a"}}]}}"#,
];
const PREEMPT: [&str; 3] = [
    r#"{"Pod":{},"NodeNameToVictims":null,"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"1"},{"UID":"2"}],"NumPDBViolations":1},"b":{"Pods":[{"UID":"3"}]}}}"#,
    r#"{"Pod":{},"NodeNameToVictims":{"a":{"Pods":[{"metadata":{"uid":"1","name":"x"}},{"metadata":{"uid":"\u0032"}}],"NumPDBViolations":0}}}"#,
    r#"{"pod":{},"nodeNameToMetaVictims":{"\"":{"pods":[{"uid":"1"}]},"b":null,"c":{"pods":[]}}}"#,
];
const BIND: [&str; 2] = [
    r#"{"PodName":"p-0","PodNamespace":"ns","PodUID":"u","Node":"a.b"}"#,
    r#"{"podName":"p","x":[{}],"podNamespace":"n\u0073","podUID":"u","node":"a"}"#,
];

proptest! {
    #[test]
    fn a_call_about_nodes_is_refused_or_answered_with_what_was_sent(bytes in json(&ABOUT_NODES)) {
        calls::filter(&bytes);
        calls::prioritize(&bytes);
    }

    #[test]
    fn a_preempt_call_is_refused_or_its_echo_means_the_same(bytes in json(&PREEMPT)) {
        calls::preempt(&bytes);
    }

    #[test]
    fn a_bind_call_is_refused_or_names_a_pod_and_a_node(bytes in json(&BIND)) {
        calls::bind(&bytes);
    }
}
