//! For each case a backend that breaks the rule that the case is about.

use std::{
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use extender_policy_api::v1beta1::{self as api, result::Outcome};
use prost::Message as _;
use tonic::{Code, Status, metadata::MetadataValue};

use super::{
    changes::{
        Sent, VerbAnswer, after, another_score, answers, before, called, flips, has, info, is_report,
        is_verb, misses, pauses, pauses_for, refuses, sent, spoils, streams, tolerates, with_args,
    },
    hooks, outcomes,
    proxy::{Accepts, Ask, Fault, State, padded, status},
    streams,
    subjects::Subject,
    wrong,
};
use crate::{
    answer::miss,
    declared::{Declared, VERBS},
};

/// The backend for the case of this name.
pub(super) fn fault(name: &str) -> (Subject, Fault) {
    let (area, case) = name.split_once('.').unwrap();
    match area {
        "handshake" | "reads" => (Subject::Reading, handshake(case)),
        "args" => (Subject::Reading, args(case)),
        "service" => (Subject::Reading, service(case)),
        "introspection" => (Subject::Reading, introspection(case)),
        "controllers" => (Subject::Reading, controllers(case)),
        "hooks" => (Subject::Reading, hooks::declared(case)),
        "outcomes" => (Subject::Reading, outcomes::fault(case)),
        "watch" => (Subject::Reading, watch(case)),
        "table" => (Subject::Reading, table(case)),
        "sizes" => (Subject::Reading, refuses(|ask| ask.message.len() > 10 << 20, Code::ResourceExhausted)),
        "hostile" => (Subject::Reading, hostile(case)),
        verb => verbs(verb, case),
    }
}

fn watch(case: &str) -> Fault {
    match case {
        "listed" => info(|info, _| info.services.retain(|service| !service.contains("Watch"))),
        "first" => streams(streams::StreamFault::NoWatch),
        other => panic!("no fault for {other}"),
    }
}

/// A change of what filter reads.
fn reads(change: impl Fn(&mut api::Reads) + Send + Sync + 'static) -> Fault {
    info(move |info, _| change(info.verbs[0].reads.as_mut().unwrap()))
}

fn node_labels(reads: &mut api::Reads) -> &mut api::MapReads {
    reads.node.as_mut().unwrap().labels.as_mut().unwrap()
}

fn handshake(case: &str) -> Fault {
    match case {
        "name" => info(|info, _| info.name.clear()),
        "version" => info(|info, _| info.version = "v".repeat(65)),
        "revision" => info(|info, _| info.revision = "r".repeat(65)),
        "revision-set" => info(|info, _| info.revision.clear()),
        "api-version" => info(|info, _| "extender.policy.v2".clone_into(&mut info.api_version)),
        "max-request-bytes" => info(|info, _| info.max_request_bytes = 1 << 19),
        "requires" => info(|info, _| info.requires.push("batches".to_owned())),
        "services" => info(|info, _| info.services = vec!["a.B".to_owned(); 33]),
        "verbs" => info(|info, _| info.verbs.clear()),
        "verbs-once" => info(|info, _| info.verbs.push(info.verbs[0].clone())),
        "enums" => info(|info, _| info.verbs[0].scope = 77),
        "score-range" => info(|info, _| info.verbs[1].score_min = Some(5_000)),
        "score-scale" => info(|info, _| {
            info.verbs[1].score_max = Some(11);
            info.verbs[1].normalization = api::Normalization::None.into();
        }),
        "reversed" => info(|info, _| {
            info.verbs[1].reversed = true;
            info.verbs[1].normalization = api::Normalization::None.into();
        }),
        "pure" => info(|info, _| info.verbs[0].scope = api::Scope::WholeSet.into()),
        "table" => streams(streams::StreamFault::Unimplemented),
        "stable" => info(|info, ask| info.version = (ask.number / 50).to_string()),
        "time" => pauses(|ask, _| (ask.method == "GetInfo").then_some(Duration::from_millis(1_500))),
        "at-once" => info(|info, ask| info.version = (ask.number / 20).to_string()),
        "other-connection" => info(|info, ask| info.version = ask.connection.to_string()),
        "later-gateway" => before(|ask, _| {
            let later = ask.method == "GetInfo"
                && api::GetInfoRequest::decode(ask.message.clone()).unwrap().api_versions.len() > 1;
            if later { Err(status(Code::InvalidArgument)) } else { Ok(ask.message.clone()) }
        }),
        "required" => info(|info, _| info.verbs[6].reads = None),
        "everything" => reads(|reads| reads.node.as_mut().unwrap().everything = true),
        "prefixes" => reads(|reads| node_labels(reads).prefixes.push("zo".to_owned())),
        "parts" => reads(|reads| reads.node.as_mut().unwrap().parts.push(99)),
        "keys" => reads(|reads| node_labels(reads).keys.extend(["a".to_owned()])),
        "limits" => reads(|reads| node_labels(reads).keys.push("z".repeat(400))),
        "node" => info(|info, _| {
            let node = info.verbs[0].reads.as_ref().unwrap().node.clone();
            info.verbs[3].reads.as_mut().unwrap().node = node;
        }),
        "counts" => reads(|reads| {
            let counts = &mut reads.node.as_mut().unwrap().pod_counts;
            counts.extend(counts.clone());
        }),
        "bytes" => after(|ask, _, answered| match answered {
            Ok(bytes) if ask.method == "GetInfo" && ask.number % 2 == 1 => Ok(encoded_otherwise(bytes)),
            answered => answered,
        }),
        other => panic!("no fault for {other}"),
    }
}

/// The same handshake, with a field in each declaration that this version does not know.
fn encoded_otherwise(response: Bytes) -> Bytes {
    let mut info = api::GetInfoResponse::decode(response).unwrap();
    let verbs = std::mem::take(&mut info.verbs);
    let mut otherwise = info.encode_to_vec();
    for mut verb in verbs {
        let reads = verb.reads.take().map(|reads| padded(&reads.encode_to_vec().into(), 1));
        let mut verb = verb.encode_to_vec();
        if let Some(reads) = reads {
            prost::encoding::bytes::encode(11, &reads, &mut verb);
        }
        prost::encoding::bytes::encode(7, &Bytes::from(verb), &mut otherwise);
    }
    otherwise.into()
}

pub(super) fn good_args() -> Bytes {
    Subject::Reading.args().unwrap().into()
}

/// Wrong args are taken for the right ones.
pub(super) fn careless_args() -> Fault {
    before(|ask, _| match ask.method.as_str() {
        "GetInfo" => {
            let request = api::GetInfoRequest::decode(ask.message.clone()).unwrap();
            Ok(api::GetInfoRequest { args: good_args(), ..request }.encode_to_vec().into())
        }
        method if is_verb(method) || is_report(method) => {
            Ok(called(ask, |call| with_args(call, &good_args())))
        }
        _ => Ok(ask.message.clone()),
    })
}

fn args(case: &str) -> Fault {
    let sent = |ask: &Ask| match ask.method.as_str() {
        "GetInfo" => api::GetInfoRequest::decode(ask.message.clone()).unwrap().args,
        _ => Bytes::new(),
    };
    match case {
        "huge" => spoils(move |ask, _| sent(ask).len() > 1 << 20),
        "reason" => without_reasons(),
        "one-by-one" => spoils(move |ask, _| sent(ask) == "[]"),
        _ => careless_args(),
    }
}

fn service(case: &str) -> Fault {
    let ok = |path: &'static str, response: &'static [u8]| {
        after(
            move |ask, _, answered| {
                if ask.method.ends_with(path) { Ok(Bytes::from_static(response)) } else { answered }
            },
        )
    };
    match case {
        // NOT_SERVING.
        "health" | "health-of-service" => ok("/grpc.health.v1.Health/Check", &[8, 2]),
        "health-unknown" => ok("/grpc.health.v1.Health/Check", &[8, 1]),
        "reflection" => streams(streams::StreamFault::NoReflection),
        "unknown-method" => ok("Conformance", &[]),
        "unknown-service" => ok("/conformance.Unknown/Method", &[]),
        "connections" => Fault { open_connections: Some(30), ..Fault::none() },
        "compressed" => Fault { accepts: Accepts::Compressed, ..Fault::none() },
        "silent" => Fault { accepts: Accepts::Silence, ..Fault::none() },
        other => panic!("no fault for {other}"),
    }
}

fn introspection(case: &str) -> Fault {
    // Whatever is asked, the answer is about a good path.
    let careless = || {
        before(|ask, _| {
            let good =
                api::IntrospectRequest { args: good_args(), path: "/zone".to_owned(), ..Default::default() };
            Ok(if ask.method.ends_with("/Introspect") {
                good.encode_to_vec().into()
            } else {
                ask.message.clone()
            })
        })
    };
    match case {
        "service" => info(|info, _| info.services.retain(|service| !service.contains("Introspection"))),
        "paths" => info(|info, _| info.introspection.push(info.introspection[0].clone())),
        "answers" => after(|ask, _, answered| {
            let not_json = api::IntrospectResponse { json: Bytes::from_static(b"{") };
            if ask.method.ends_with("/Introspect") { Ok(not_json.encode_to_vec().into()) } else { answered }
        }),
        _ => careless(),
    }
}

fn controllers(case: &str) -> Fault {
    match case {
        "limits" => info(|info, _| info.controllers.as_mut().unwrap().lease.clear()),
        "health" => info(|info, _| {
            let controllers = info.controllers.as_mut().unwrap();
            controllers.leader =
                if controllers.leader.is_empty() { controllers.identity.clone() } else { String::new() };
        }),
        other => panic!("no fault for {other}"),
    }
}

fn verbs(verb: &str, case: &str) -> (Subject, Fault) {
    let subject = match (verb, case) {
        (_, "only-decides") if verb != "bind" => Subject::Effects,
        ("filter", "undeclared") => Subject::Scores,
        (_, "undeclared") => Subject::Filters,
        _ => Subject::Reading,
    };
    let fault = match (verb, case) {
        ("filter", _) => filter(case),
        ("score", _) => score(case),
        ("preempt", _) => preempt(case),
        (hook, _) if hook.starts_with("before") => hooks::answered(case),
        _ => bind(case),
    };
    (subject, fault.or_else(|| args_of_call(case)).unwrap_or_else(|| call(case)))
}

/// What all verbs have, of their args and errors.
fn args_of_call(case: &str) -> Option<Fault> {
    Some(match case {
        "wrong-args" | "args-unknown" | "args-digest" => careless_args(),
        "args-known" => forgetful(),
        "wrong-args-reason" | "invalid-request-reason" => without_reasons(),
        _ => return None,
    })
}

/// What all verbs have.
fn call(case: &str) -> Fault {
    match case {
        "undeclared" => {
            after(|ask, _, answered| if is_verb(&ask.method) { Ok(Bytes::new()) } else { answered })
        }
        "answered" => refuses(|_| true, Code::Internal),
        "time" => pauses(|ask, _| {
            sent(ask).filter(|sent| sent.nodes.count == 500).map(|_| Duration::from_millis(250))
        }),
        "dead-calls" => works_on(),
        "evaluated" | "huge" => {
            answers(|_, sent| sent.nodes.count != 1, |answer| answer.evaluated(|evaluated| evaluated + 1))
        }
        "revision" => answers(|_, _| true, |answer| "other".clone_into(&mut answer.result().revision)),
        "no-handshake" => no_handshake(),
        "unknown-form" => misses(|_| Err(status(Code::InvalidArgument))),
        "miss-alone" => misses(|result| {
            "r1".clone_into(&mut result.revision);
            Ok(())
        }),
        "other-args" => wrong::mixed_args(),
        "unknown-fields" => refuses(|ask| has(&ask.message, b"later"), Code::InvalidArgument),
        "response-size" | "many" => after(|ask, _, answered| match answered {
            Ok(bytes) if is_verb(&ask.method) => Ok(padded(&bytes, 1 << 20)),
            answered => answered,
        }),
        "at-once" => flips_beside_others(),
        "canceled" => Fault { spoiled_by_cancel: true, ..Fault::none() },
        "no-time" => spoils(|ask, _| ask.headers.contains_key("grpc-timeout")),
        "empty-facts" => {
            refuses(|ask| sent(ask).is_some_and(|sent| empty(&sent) || without_labels(&sent)), Code::Internal)
        }
        "extremes" => extremes(),
        "no-call" | "no-pod" | "no-nodes" | "no-facts" | "count" | "zero-nodes" | "row-without-facts"
        | "values" | "absent-order" | "pod-counts" | "pod-counts-order" | "topology-counts"
        | "domains-order" | "not-protobuf" | "cut-off" | "no-purpose" => tolerates(),
        "snapshot" => flips(|_, sent| sent.call.snapshot.len() > 1),
        "any-purpose" => {
            refuses(|ask| sent(ask).is_some_and(|sent| sent.call.purpose == 5), Code::FailedPrecondition)
        }
        "only-decides" => before(|ask, _| Ok(called(ask, |call| call.purpose = api::Purpose::Decide.into()))),
        "traced" | "traceparent" => flips(|ask, _| ask.headers.contains_key("traceparent")),
        "tracestate" => flips(|ask, _| ask.headers.contains_key("tracestate")),
        "metadata" => refuses(|ask| ask.headers.contains_key("authorization"), Code::Unauthenticated),
        "replicas" | "per-node-order" | "per-node-subset" | "per-node-sizes" | "pure-equal-rows" => {
            flips(|_, _| true)
        }
        "pure-again" => flips(|ask, _| ask.number > 10),
        "pure-call" => flips(|_, sent| sent.call.id != "conformance"),
        "pure-timeout" => flips(|ask, _| ask.headers.contains_key("grpc-timeout")),
        "undeclared-data" => flips(|_, sent| {
            let of_pod = sent.pod.facts.iter().map(|facts| &facts.labels);
            let mut labels = of_pod.chain(sent.facts().map(|facts| &facts.labels)).flatten();
            labels.any(|labels| !labels.entries.is_empty())
        }),
        "other-reads" => any_reads(),
        "too-large" => spoils(|ask, _| ask.message.len() > 64 << 20),
        other => panic!("no fault for {other}"),
    }
}

/// Statuses do not say which of the errors of their code they are.
pub(super) fn without_reasons() -> Fault {
    after(|_, _, answered| answered.map_err(|refused| Status::new(refused.code(), refused.message())))
}

/// Args are asked for in each call.
pub(super) fn forgetful() -> Fault {
    before(|ask, _| {
        let by_digest =
            sent(ask).is_some_and(|sent| sent.call.args.is_empty() && !sent.call.args_sha256.is_empty());
        if !by_digest {
            return Ok(ask.message.clone());
        }
        let mut status = status(Code::FailedPrecondition);
        let reason = api::ErrorReason::ArgsUnknown.as_str_name();
        status.metadata_mut().insert("extender-reason", MetadataValue::from_static(reason));
        Err(status)
    })
}

/// Calls are answered whichever declaration they name.
fn any_reads() -> Fault {
    let declared = Arc::new(Mutex::new(None));
    let learned = Arc::clone(&declared);
    let learns = after(move |ask, _, answered| {
        if let ("GetInfo", Ok(bytes)) = (&*ask.method, &answered) {
            *learned.lock().unwrap_or_else(PoisonError::into_inner) = Some(Declared::read(bytes).unwrap());
        }
        answered
    });
    let corrects = before(move |ask, _| {
        let declared = declared.lock().unwrap_or_else(PoisonError::into_inner);
        let verb = VERBS.into_iter().find(|verb| verb.title() == ask.method);
        let terms = declared.as_ref().zip(verb).and_then(|(declared, verb)| declared.verb(verb));
        Ok(called(ask, |call| call.reads = terms.map_or_else(Bytes::new, |terms| terms.reads_sha256.clone())))
    });
    Fault { before: corrects.before, ..learns }
}

/// Ten calls at a time take a while each, whether somebody waits for them or not.
fn works_on() -> Fault {
    let workers = Arc::new(tokio::sync::Semaphore::new(10));
    pauses_for(move |ask, _| {
        let (workers, is_verb) = (Arc::clone(&workers), is_verb(&ask.method));
        Box::pin(async move {
            let work = async move {
                let _worker = workers.acquire_owned().await;
                // Much longer than an empty call, also beside the other tests.
                tokio::time::sleep(Duration::from_secs(1)).await;
            };
            if is_verb {
                tokio::spawn(work).await.unwrap();
            }
        })
    })
}

/// Refuses the largest numbers, and odd or long texts.
fn extremes() -> Fault {
    let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let texts = ["x".repeat(4_096), "a".repeat(253), "\u{10ffff}".to_owned()];
    refuses(
        move |ask| has(&ask.message, &largest) || texts.iter().any(|text| has(&ask.message, text.as_bytes())),
        Code::Internal,
    )
}

fn empty(sent: &Sent) -> bool {
    !sent.rows().is_empty()
        && sent.facts().all(|facts| facts.allocatable.is_none() && facts.taints.is_empty())
        && sent.candidates.iter().flat_map(|candidate| &candidate.victims).all(|victim| victim.pod.is_none())
}

/// Of the hook that is asked about the pod alone.
fn without_labels(sent: &Sent) -> bool {
    let labels = sent.pod.facts.as_ref().and_then(|facts| facts.labels.as_ref());
    sent.nodes.count == 0 && labels.is_some_and(|labels| !labels.absent.is_empty())
}

fn no_handshake() -> Fault {
    before(|ask, state| {
        let mut greeted = state.greeted.lock().unwrap_or_else(PoisonError::into_inner);
        if ask.method == "GetInfo" {
            greeted.insert(ask.connection);
        }
        let stranger = is_verb(&ask.method) && !greeted.contains(&ask.connection);
        if stranger { Err(status(Code::Unavailable)) } else { Ok(ask.message.clone()) }
    })
}

pub(super) fn rejections(change: impl Fn(&mut api::FilterResponse) + Send + Sync + 'static) -> Fault {
    answers(
        |_, _| true,
        move |answer| {
            if let VerbAnswer::Filter(response) = answer {
                change(response);
            }
        },
    )
}

fn filter(case: &str) -> Option<Fault> {
    Some(match case {
        "positions" => rejections(|response| {
            response.rejections.iter_mut().for_each(|rejection| rejection.positions.push(1_000));
        }),
        "one-line" => wrong::ending_in("%"),
        "text-lengths" => rejections(|response| {
            response.rejections.iter_mut().for_each(|rejection| rejection.rule = "r".repeat(64));
        }),
        "reasons" => rejections(|response| {
            response.rejections.iter_mut().for_each(|rejection| rejection.reason.clear());
        }),
        "constant-reasons" => after(|ask, _, answered| {
            let bytes = answered?;
            let Some(VerbAnswer::Filter(mut response)) = VerbAnswer::decode(&ask.method, bytes.clone())
            else {
                return Ok(bytes);
            };
            response.rejections.iter_mut().for_each(|rejection| rejection.reason = ask.number.to_string());
            Ok(response.encode_to_vec().into())
        }),
        "grouped" => rejections(|response| {
            let single = response.rejections.iter().flat_map(|rejection| {
                rejection
                    .positions
                    .iter()
                    .map(|at| api::Rejection { positions: vec![*at], ..rejection.clone() })
            });
            response.rejections = single.collect();
        }),
        "want-scores" => {
            rejections(|response| response.scores.iter_mut().for_each(|scores| scores.values.truncate(1)))
        }
        "same-scores" => rejections(|response| response.scores.iter_mut().for_each(another_score)),
        _ => return None,
    })
}

fn score(case: &str) -> Option<Fault> {
    let change = |change: fn(&mut api::Scores)| {
        answers(
            |_, _| true,
            move |answer| {
                if let VerbAnswer::Score(response) = answer {
                    response.scores.iter_mut().for_each(change);
                }
            },
        )
    };
    Some(match case {
        "one-each" => change(|scores| scores.values.push(0)),
        "absent" => change(|scores| scores.absent = vec![0, 0]),
        "range" => change(|scores| scores.values.iter_mut().for_each(|value| *value = 1_001)),
        "rejected" => {
            let closed = |facts: &api::NodeFacts| {
                facts.labels.as_ref().and_then(|labels| labels.values.first()).is_some_and(|zone| zone == "a")
            };
            let all = move |sent: &Sent| sent.facts().all(closed);
            refuses(
                move |ask| ask.method == "Score" && sent(ask).is_some_and(|sent| all(&sent)),
                Code::Internal,
            )
        }
        _ => return None,
    })
}

fn preempt(case: &str) -> Option<Fault> {
    let victims = |sent: &Sent, of: fn(&api::Candidate) -> bool| sent.candidates.iter().any(of);
    Some(match case {
        "kept" => answers(
            |_, _| true,
            |answer| {
                if let VerbAnswer::Preempt(response) = answer {
                    response.kept.push(api::KeptCandidate { position: 99, ..api::KeptCandidate::default() });
                }
            },
        ),
        "no-candidates" | "candidate-count" | "no-victims" => tolerates(),
        "unknown-victims" => {
            let unknown =
                |candidate: &api::Candidate| candidate.victims.iter().any(|victim| victim.pod.is_none());
            refuses(move |ask| sent(ask).is_some_and(|sent| victims(&sent, unknown)), Code::Internal)
        }
        "placeholder" => refuses(
            move |ask| sent(ask).is_some_and(|sent| victims(&sent, |candidate| candidate.placeholder)),
            Code::Internal,
        ),
        "violations" => {
            let violating = |candidate: &api::Candidate| candidate.pdb_violations > 0;
            refuses(move |ask| sent(ask).is_some_and(|sent| victims(&sent, violating)), Code::Internal)
        }
        _ => return None,
    })
}

fn bind(case: &str) -> Option<Fault> {
    let respond = |outcome: i32, message: String, from: usize| {
        after(move |ask, _, answered| {
            if ask.method != "Bind" || ask.number < from {
                return answered;
            }
            Ok(api::BindResponse { outcome, message: message.clone() }.encode_to_vec().into())
        })
    };
    Some(match case {
        "no-call" | "no-purpose" | "no-pod" | "other-pod" => tolerates(),
        "outcome" => respond(0, String::new(), 0),
        "again" => respond(2, String::new(), 1),
        "other-uid" => respond(1, String::new(), 0),
        "message" => respond(1, "m".repeat(2_000), 0),
        _ => return None,
    })
}

fn table(case: &str) -> Fault {
    use streams::StreamFault as F;
    match case {
        "answers" | "subset" => flips(|_, sent| sent.by_table().is_some()),
        "applied" => streams(F::WrongVersion),
        "changed" => streams(F::LosesChanges),
        "with-rows" => flips(|_, sent| sent.by_table().is_some_and(|nodes| !nodes.rows.is_empty())),
        "older" => refuses(
            |ask| sent(ask).is_some_and(|sent| sent.by_table().is_some_and(|nodes| nodes.at_least == 0)),
            Code::Unavailable,
        ),
        "unknown" | "other-reads" => misses(|result| match miss(result) {
            Some(api::Miss::TableUnknown) => Err(status(Code::NotFound)),
            _ => Ok(()),
        }),
        "behind" => wait_for_message(),
        "unknown-id" | "removed" => misses(|result| {
            if miss(result) == Some(api::Miss::TableBehind) {
                result.outcome = Some(Outcome::Miss(api::Miss::TableUnknown.into()));
            }
            Ok(())
        }),
        "zeros" | "zeros-unknown" | "count" => tolerates(),
        "other-connection" => before(|ask, state| {
            let tables = state.tables.lock().unwrap_or_else(PoisonError::into_inner);
            let table = sent(ask).and_then(|sent| sent.by_table().map(|nodes| nodes.table.clone()));
            let elsewhere =
                table.and_then(|table| tables.get(&table)).is_some_and(|at| *at != ask.connection);
            if elsewhere { Err(status(Code::NotFound)) } else { Ok(ask.message.clone()) }
        }),
        "two" => streams(F::OneTable),
        "removals-last" => streams(F::KeepsRemoved),
        "later-upsert" => streams(F::FirstUpsert),
        "remove-unknown" => streams(F::RefusesRemovals),
        "as-a-whole" => {
            Fault { before: Some(Box::new(|ask, state| Ok(doubled(ask, state)))), ..streams(F::Halves) }
        }
        "later-fields" => streams(F::RefusesUnknownFields),
        "not-protobuf" | "no-reads" | "id-zero" | "no-row" | "row-lacks-facts" | "version" | "renamed"
        | "no-name" | "bad-name" | "name-taken" | "complete-twice" | "reads-limits" => streams(F::Tolerates),
        "refused-whole" => streams(F::AppliesAPart),
        "limits" => streams(F::TenTables),
        "closed" | "reset" | "disconnected" => streams(F::NeverEnds),
        "again" => streams(F::OneStream),
        "huge" => streams(F::RefusesLarge),
        "meanwhile" => Fault { stream: F::Blocks, ..wait_while_busy() },
        "nothing-sent" => streams(F::Spoiled),
        other => panic!("no fault for {other}"),
    }
}

/// The versions of the backend's table are twice those of the suite.
fn doubled(ask: &Ask, state: &State) -> Bytes {
    let Some(mut sent) = sent(ask) else { return ask.message.clone() };
    let Some(api::nodes::Form::Table(nodes)) = &mut sent.nodes.form else { return ask.message.clone() };
    nodes.at_least *= 2;
    state.called.notify_one();
    let Sent { call, pod, nodes, .. } = sent;
    let (call, pod, nodes) = (Some(call), Some(pod), Some(nodes));
    api::FilterRequest { call, pod, nodes, want_scores: false }.encode_to_vec().into()
}

/// Each call takes so long that those that are asked at once overlap.
fn flips_beside_others() -> Fault {
    let pause = pauses(|_, _| Some(Duration::from_millis(20))).pause;
    Fault { pause, ..flips(|ask, _| ask.at_once > 1) }
}

/// Calls wait while a message is applied.
fn wait_while_busy() -> Fault {
    pauses_for(|ask, state| {
        Box::pin(async move {
            while is_verb(&ask.method) {
                let changed = state.changed.notified();
                if !state.busy.load(Ordering::SeqCst) {
                    return;
                }
                state.called.notify_one();
                changed.await;
            }
        })
    })
}

/// Calls wait for the message that brings the version that they name.
fn wait_for_message() -> Fault {
    pauses_for(|ask, state| {
        Box::pin(async move {
            let at_least = sent(ask).and_then(|sent| sent.by_table().map(|nodes| nodes.at_least));
            while at_least.is_some() {
                let changed = state.changed.notified();
                if at_least <= Some(state.applied.load(Ordering::SeqCst)) {
                    return;
                }
                changed.await;
            }
        })
    })
}

fn hostile(case: &str) -> Fault {
    match case {
        "length" | "no-message" | "cut-prefix" | "compressed" | "two-messages" | "content-type" => {
            Fault { spoiled_by_frames: true, ..Fault::none() }
        }
        "nested" => spoils(move |ask, _| ask.message.len() >= 100_000 && ask.message.len() <= 200_000),
        "empty-entries" => spoils(|ask, _| ask.message.len() > 1_500_000),
        "random" => after(|ask, state, answered| {
            let refused = is_verb(&ask.method) && answered.is_err();
            if refused && state.refused.fetch_add(1, Ordering::SeqCst) > 50 {
                state.spoil();
            }
            answered
        }),
        "connections" => Fault { connections: Some(100), ..Fault::none() },
        "status-messages" => after(move |ask, _, answered| match answered {
            Err(refused) if ask.method == "GetInfo" => Err(Status::new(refused.code(), "m".repeat(2_000))),
            answered => answered,
        }),
        other => panic!("no fault for {other}"),
    }
}
