//! Binding: backends in order, and the apiserver's word after an unclear end.

use extender_policy_api::v1beta1::{self as api, BindOutcome, BindRequest, Verb};
use serde_json::json;

use crate::{
    answers::binding,
    backend::{Act, Backend, Received},
    case::{Check, Group, Nodes, case, ensure, equal, table},
    scene::{backend, fresh, info, verb},
    stage::Stage,
};

const BIND: &str = "49: What the gateway does is the same for every failure";

pub(crate) fn group() -> Group {
    let info = info(vec![verb(Verb::Bind)]);
    let settings = |policy: &str| json!({"bind": {"timeout": "10s", "failurePolicy": policy}});
    let cases = table!(case:
        "bind.fields" ["40: `Bind` also gets the pod's namespace, name and UID", "policy.proto: A pod of that name with another uid"]
            "a backend gets namespace, name, UID and node" => fields;
        "bind.bound" ["policy.proto: The Binding exists, with the pod and node of the request"]
            "a backend that has bound ends the call" => |stage| async move {
                ends(&stage, "first", &Binds::Binds(binding(BindOutcome::Bound)), true, [1, 0]).await
            };
        "bind.declined" ["Errors: asks the next binder", "policy.proto: The backend does not bind this pod and has not tried to"]
            "the next binder is asked after DECLINED" => |stage| async move {
                stage.backend("first")?.always("Bind", binding(BindOutcome::Declined));
                ends(&stage, "second", &Binds::Binds(binding(BindOutcome::Bound)), true, [1, 1]).await
            };
        "bind.not-bound-next" ["Errors: the failure policy decides; the pod does not count"]
            "the failure policy Next asks the next binder" => |stage| async move {
                stage.backend("first")?.always("Bind", binding(BindOutcome::NotBound));
                ends(&stage, "second", &Binds::Binds(binding(BindOutcome::Bound)), true, [1, 1]).await
            };
        "bind.not-bound-fail" ["Errors: the failure policy decides; the pod does not count"]
            "the failure policy Fail is an error" => |stage| async move {
                ends(&stage, "second", &Binds::Nothing(binding(BindOutcome::NotBound)), false, [1, 1]).await
            };
        "bind.unspecified" ["policy.proto: A failure; a backend never sends it deliberately"]
            "an empty answer is a failure" => |stage| async move {
                ends(&stage, "second", &Binds::Nothing(Act::Message(Vec::new())), false, [1, 1]).await
            };
        "bind.unknown-outcome" ["65: A value of `BindOutcome` or `Normalization` that it does not know is a failure"]
            "an unknown outcome is a failure" => |stage| async move {
                let unknown = api::BindResponse { outcome: 63, message: String::new() };
                ends(&stage, "second", &Binds::Nothing(Act::answer(&unknown)), false, [1, 1]).await
            };
        "bind.unclear" ["Errors: reads whether the pod is bound; if not, the failure policy decides, and the pod counts", BIND]
            "a pod that is bound after a status is bound" => |stage| async move {
                ends(&stage, "first", &Binds::Binds(Act::Status(14, "lost", "")), true, [1, 0]).await
            };
        "bind.not-repeated" ["67: Otherwise `Bind` is never repeated within a call"]
            "a backend is asked once" => |stage| async move {
                ends(&stage, "second", &Binds::Nothing(Act::Status(14, "lost", "")), false, [1, 1]).await
            };
        "bind.args-unknown" ["Errors: sends the same request once more, with `args`"]
            "args are sent where they are not held" => args_unknown;
    );
    let args = json!({"bind": {"timeout": "10s", "failurePolicy": "Next"}, "args": {"zone": "a"}});
    let backends = vec![backend("first", args, &info), backend("second", settings("Fail"), &info)];
    Group { nodes: Nodes::Calls, binds: true, backends, cases }
}

/// What a backend does before it answers.
enum Binds {
    Binds(Act),
    Nothing(Act),
}

async fn bind(stage: &Stage, pod: &str) -> Check<String> {
    let body = json!({"PodName": pod, "PodNamespace": "shop", "PodUID": pod, "Node": "n1"});
    let answered = stage.post("bind", &body).await?;
    Ok(answered["Error"].as_str().unwrap_or_default().to_owned())
}

/// Whether the bind succeeds if this backend does this, and how often both are called.
async fn ends(stage: &Stage, name: &str, does: &Binds, succeeds: bool, calls: [usize; 2]) -> Check {
    let (apiserver, pod) = (stage.apiserver()?.clone(), fresh());
    let (binds, act) = match does {
        Binds::Binds(act) => (true, act.clone()),
        Binds::Nothing(act) => (false, act.clone()),
    };
    stage.backend(name)?.on("Bind", move |received| {
        let request: BindRequest = received.decode();
        if binds {
            apiserver.bind(&request.name, &request.node);
        }
        act.clone()
    });
    let backends = [stage.backend("first")?, stage.backend("second")?];
    let marks = backends.map(Backend::mark);
    let error = bind(stage, &pod).await?;
    ensure(error.is_empty() == succeeds, || {
        format!("the error is {error:?}; expected {}", if succeeds { "none" } else { "one" })
    })?;
    let counted = [0, 1].map(|at| backends[at].since(marks[at], "Bind").len());
    equal("the calls of both backends", &counted, &calls)?;
    let node = stage.apiserver()?.node(&pod);
    equal("the pod's node", &node.as_deref(), &succeeds.then_some("n1"))
}

async fn fields(stage: Stage) -> Check {
    let first = stage.backend("first")?;
    let (mark, pod) = (first.mark(), fresh());
    bind(&stage, &pod).await?;
    let request: BindRequest = first.since(mark, "Bind").first().map(Received::decode).unwrap_or_default();
    let sent = [&*request.namespace, &request.name, &request.uid, &request.node];
    equal("namespace, name, UID and node", &sent, &["shop", &pod, &pod, "n1"])?;
    let call = request.call.unwrap_or_default();
    equal("purpose and backend", &(call.purpose(), &*call.backend), &(api::Purpose::Decide, "first"))
}

async fn args_unknown(stage: Stage) -> Check {
    let (first, apiserver) = (stage.backend("first")?, stage.apiserver()?.clone());
    first.on("Bind", move |received| {
        let request: BindRequest = received.decode();
        if request.call.unwrap_or_default().args.is_empty() {
            return Act::Status(9, "which?", "ERROR_REASON_ARGS_UNKNOWN");
        }
        apiserver.bind(&request.name, &request.node);
        binding(BindOutcome::Bound)
    });
    let mark = first.mark();
    equal("the error", &bind(&stage, &fresh()).await?, &"")?;
    equal("the calls", &first.since(mark, "Bind").len(), &2)
}
