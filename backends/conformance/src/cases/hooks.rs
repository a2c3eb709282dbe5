//! Hooks: what they declare, and what they change.

use extender_policy_api::v1beta1::{self as api, ChangedPart, hook_service_server::SERVICE_NAME};

use prost::Message as _;

use super::calls;
use crate::{
    answer::Response,
    case::{self, Case, Stop, failed, skipped},
    declared::{HOOKS, NODE_HOOKS, POD_ALONE, Terms, Verb},
    hook::{changed_parts, check_limits, is_of_pod},
    question::{Question, Scene},
    suite::Suite,
};

/// Questions of a case, and the nodes of each.
const QUESTIONS: usize = 10;
const NODES: usize = 60;

pub(super) fn cases() -> Vec<Case> {
    [declarations(), case::table! {
        for POD_ALONE: "nodes" Must ["59.2"] "a request with nodes is refused" => with_nodes;
        for HOOKS: "evaluated" Must ["58.2"] "result.evaluated is 1 or the number of nodes" => |suite, hook|
            calls::about(suite, hook, &[1, 2, 7, 500]).await;
        for HOOKS: "declared-changes" Must ["58.1"] "only declared parts are changed" => changes_declared;
        for NODE_HOOKS: "positions" Must ["58.3"] "each position is in range and changed once" => |suite, hook|
            calls::about(suite, hook, &[NODES; QUESTIONS]).await;
        for HOOKS: "limits" Must ["58.4"] "changes are few and short" => limits;
        for HOOKS: "response-size" Must ["58.4"] "the response is not too large for the gateway" => |suite, hook|
            calls::about(suite, hook, &[1, 100]).await;
    }].concat()
}

fn declarations() -> Vec<Case> {
    case::table! {
        "hooks.service" Must ["57.1"] "a backend with hooks lists the service and serves it" => service;
        "hooks.changes" Must ["57.2"] "each hook declares known parts that it can change" => changes;
        "hooks.side-effects" Must ["57.2", "59.1"] "no hook declares side effects" => side_effects;
        "hooks.unknown" Must ["59.3"] "a request without a hook, or with one that is none, is refused" => unknown;
        "hooks.counts" Must ["57.2"] "no hook reads topology counts" => counts;
        "hooks.pod-alone" Must ["57.2"] "beforeFilter declares nothing about nodes" => pod_alone;
        "hooks.pure" Must ["57.2"] "a pure beforeScore does not change the pod" => pure;
    }
}

fn declared(suite: &Suite) -> Result<Vec<Terms<'_>>, Stop> {
    let hooks: Vec<_> = HOOKS.iter().filter_map(|hook| suite.declared.verb(*hook)).collect();
    if hooks.is_empty() { skipped("no hook is declared") } else { Ok(hooks) }
}

async fn service(suite: &Suite) -> Result<(), Stop> {
    let hooks = declared(suite)?;
    if !suite.declared.lists(SERVICE_NAME) {
        return failed(format!("`verbs` has hooks, but `services` does not list {SERVICE_NAME}"));
    }
    for terms in hooks {
        suite.ask(&suite.random_question(terms.verb, 2)?).await?;
    }
    Ok(())
}

async fn unknown(suite: &Suite) -> Result<(), Stop> {
    let Some(terms) = declared(suite)?.into_iter().next() else { return Ok(()) };
    let message = suite.random_question(terms.verb, 2)?.encode();
    for hook in [0, i32::from(api::Verb::Filter), 99] {
        let request =
            api::ChangeRequest::decode(message.clone()).map_err(|error| Stop::broken(error.to_string()))?;
        let message = api::ChangeRequest { hook, ..request }.encode_to_vec().into();
        suite
            .refused_message_naming(terms.verb, message, "hook", &format!("a request with `hook` {hook}"))
            .await?;
    }
    Ok(())
}

/// A hook that is about the pod alone would ignore what the sender means.
async fn with_nodes(suite: &Suite, hook: Verb) -> Result<(), Stop> {
    let nodes = api::Nodes {
        count: 1,
        form: Some(api::nodes::Form::Rows(api::NodeRows {
            rows: vec![api::NodeRow { name: "node".to_owned(), ..api::NodeRow::default() }],
        })),
    };
    let question = Question { nodes: Some(nodes), ..suite.random_question(hook, 0)? };
    suite.refused_naming(&question, "nodes", "a request with `nodes`").await
}

async fn changes(suite: &Suite) -> Result<(), Stop> {
    declared(suite)?.into_iter().try_for_each(|terms| {
        let mistake = mistake(terms.verb, &terms.info.changes);
        mistake.map_or(Ok(()), |mistake| failed(format!("{}: `changes` {mistake}", terms.verb.name())))
    })
}

/// What is wrong with the declared changes of a hook.
fn mistake(hook: Verb, changes: &[i32]) -> Option<String> {
    if changes.is_empty() {
        return Some("is empty".to_owned());
    }
    changes.iter().enumerate().find_map(|(at, number)| {
        let part = ChangedPart::try_from(*number).ok().filter(|part| *part != ChangedPart::Unspecified);
        let Some(part) = part else { return Some(format!("has {number}, which is not a ChangedPart")) };
        let name = part.as_str_name();
        if changes.iter().take(at).any(|earlier| earlier == number) {
            return Some(format!("has {name} twice"));
        }
        (!can_change(hook, part)).then(|| format!("has {name}, which this hook cannot change"))
    })
}

fn can_change(hook: Verb, part: ChangedPart) -> bool {
    match hook {
        Verb::BeforeFilter => is_of_pod(part),
        Verb::BeforeFilterNodes => !is_of_pod(part),
        _ => true,
    }
}

async fn side_effects(suite: &Suite) -> Result<(), Stop> {
    match declared(suite)?.iter().find(|terms| terms.changes_outside()) {
        Some(terms) => failed(format!("{} has EFFECTS_CHANGES_OUTSIDE", terms.verb.name())),
        None => Ok(()),
    }
}

async fn counts(suite: &Suite) -> Result<(), Stop> {
    let reads_counts = |terms: &&Terms<'_>| !terms.pod_reads().topology_counts.is_empty();
    match declared(suite)?.iter().find(reads_counts) {
        Some(terms) => failed(format!("{} has `reads.pod.topology_counts`", terms.verb.name())),
        None => Ok(()),
    }
}

async fn pod_alone(suite: &Suite) -> Result<(), Stop> {
    let terms = suite.terms(Verb::BeforeFilter)?;
    if *terms.node_reads() != api::NodeReads::default() {
        return failed(format!("{} has `reads.node`, and no nodes", terms.verb.name()));
    }
    Ok(())
}

async fn pure(suite: &Suite) -> Result<(), Stop> {
    let terms = suite.terms(Verb::BeforeScore)?;
    if !terms.is_pure() {
        return skipped("the hook is not declared pure");
    }
    let mut parts = terms.info.changes.iter().filter_map(|number| ChangedPart::try_from(*number).ok());
    match parts.find(|part| is_of_pod(*part)) {
        Some(part) => failed(format!("{} is pure and changes {}", terms.verb.name(), part.as_str_name())),
        None => Ok(()),
    }
}

/// Responses to random questions.
async fn responses(suite: &Suite, hook: Verb) -> Result<Vec<(Question, api::ChangeResponse)>, Stop> {
    suite.terms(hook)?;
    let mut objects = suite.objects();
    let mut responses = Vec::new();
    for _ in 0..QUESTIONS {
        let question = suite.question(hook, &Scene::random(&mut objects, NODES))?;
        if let Response::Hook(response) = suite.respond(&question).await? {
            responses.push((question, *response));
        }
    }
    Ok(responses)
}

async fn changes_declared(suite: &Suite, hook: Verb) -> Result<(), Stop> {
    let declared = &suite.terms(hook)?.info.changes;
    for (_, response) in responses(suite, hook).await? {
        let mut parts = changed_parts(&response);
        if let Some(part) = parts.find(|part| !declared.contains(&i32::from(*part))) {
            return failed(format!("{} is changed, but not in `changes`", part.as_str_name()));
        }
    }
    Ok(())
}

async fn limits(suite: &Suite, hook: Verb) -> Result<(), Stop> {
    for (question, response) in responses(suite, hook).await? {
        let nodes = usize::try_from(question.count()).unwrap_or(usize::MAX >> 10);
        check_limits(&response, nodes).map_err(Stop::Failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_declares_what_it_can_change() {
        use ChangedPart::{NodeTaints, PodLabels, PodRequests};
        let of = |hook, parts: &[ChangedPart]| {
            mistake(hook, &parts.iter().map(|part| i32::from(*part)).collect::<Vec<_>>())
        };
        assert_eq!(of(Verb::BeforeFilter, &[PodLabels, PodRequests]), None);
        assert_eq!(of(Verb::BeforeFilterNodes, &[NodeTaints]), None);
        assert_eq!(of(Verb::BeforeScore, &[NodeTaints, PodLabels]), None);
        for (hook, parts) in [
            (Verb::BeforeFilter, &[NodeTaints][..]),
            (Verb::BeforeFilterNodes, &[PodLabels]),
            (Verb::BeforeScore, &[]),
            (Verb::BeforeScore, &[PodLabels, PodLabels]),
            (Verb::BeforeScore, &[ChangedPart::Unspecified]),
        ] {
            assert!(of(hook, parts).is_some(), "{hook:?} {parts:?}");
        }
        assert!(mistake(Verb::BeforeScore, &[99]).is_some());
    }
}
