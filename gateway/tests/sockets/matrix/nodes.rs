//! One case of filter, score or preempt: a backend that fails, and one that does not.

use super::{
    counted, failing,
    failures::Fault,
    start,
    verbs::{Verb, keeps, kept, refused, scores},
};
use crate::support::{Gateway, backend::Scripted};

/// Refuses and spares node `a`, scores 4.
async fn good() -> Scripted {
    start(|verb| match verb {
        "Filter" => refused(&[&[0]]),
        "Score" => scores(4, 2),
        _ => keeps(vec![kept(1)]),
    })
    .await
}

/// The result is that of the good backend, or the call fails and gives the cause.
pub(crate) async fn check(fault: &Fault, verb: Verb, policy: &str) {
    let bad = failing(fault, verb, || {}).await;
    let good = good().await.address;
    let block = verb.block();
    let rest = format!(
        "nodes: {{source: Request}}\ntimeouts: {{decision: 30s}}\nbackends:\n\
         - {{name: bad, url: 'http://{bad}', {block}: {{timeout: {}, failurePolicy: {policy}}}}}\n\
         - {{name: good, url: 'http://{good}', {block}: {{timeout: 20s}}}}\n",
        fault.timeout()
    );
    let gateway = Gateway::start_paced(&rest, fault.cadences()).await;
    let answer = gateway.post(verb.path(), verb.request()).await;
    let case = format!("{} × {block} × {policy}", fault.name);
    let error = format!("extender-gateway: backend bad failed {block}: {}", fault.said);
    match (verb, policy) {
        (Verb::Filter, "Fail") => assert!(answer.error().starts_with(&error), "{case}: {}", answer.error()),
        (Verb::Preempt, "Fail") => {
            let said = answer.header("x-extender-gateway-error").unwrap_or_default();
            assert!(answer.status == 502 && said.starts_with(&error), "{case}: {answer:?}");
            assert_eq!(answer.header("content-length"), Some("0"), "{case}");
        }
        _ => {
            let whole = answer.json();
            let merged = match verb {
                Verb::Filter => &whole["NodeNames"],
                Verb::Score => &whole,
                Verb::Preempt => &whole["NodeNameToMetaVictims"],
                Verb::Bind => unreachable!("bind has its own check"),
            };
            assert_eq!(*merged, verb.without_the_failing_one(), "{case}: {whole}");
        }
    }
    counted(&gateway, fault, verb, &case).await;
}
