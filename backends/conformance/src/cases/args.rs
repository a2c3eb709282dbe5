//! The operator's args, in the handshake and in each call.

use bytes::Bytes;
use extender_policy_api::v1beta1::{
    self as api,
    ErrorReason::{ArgsUnknown, InvalidArgs},
};
use futures_util::future::try_join;
use tonic::{Code, Status};

use super::calls::same_unless_changing;
use crate::{
    case::{self, Case, Stop, failed, skipped},
    client::shown,
    declared::{ALL_BUT_BIND, Declared, VERBS, Verb},
    digest::sha256,
    question::{Question, Scene},
    suite::{Suite, answer, reasoned, refused},
};

/// A name that no policy expects.
const UNKNOWN: &str = "conformance-unknown";

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "args.not-json" Must ["9.1"] "args that are not JSON are refused" => |suite|
            refused(given(suite, "{").await?, &[Code::InvalidArgument], "args `{`");
        "args.not-utf8" Must ["9.1"] "args that are not UTF-8 are refused" => not_utf8;
        "args.not-an-object" Must ["9.1"] "args that are not an object are refused" => not_an_object;
        "args.unknown" Should ["9.1"] "an unknown field is refused by name" => unknown;
        "args.nested" Must ["9.1", "51.1"] "100,000 open brackets are refused" => nested;
        "args.huge" Must ["9.2", "51.1"] "args of 2 MiB are accepted or refused" => huge;
        "args.one-by-one" Must ["9.1", "3.1"] "wrong args do not spoil the right ones" => one_by_one;
        for ALL_BUT_BIND: "other-args" Must ["9.3", "3.1"] "two configured policies share nothing" => other_args;
        for VERBS: "wrong-args" Must ["9.3"] "a call with wrong args is refused" => wrong_in_a_call;
        for VERBS: "args-unknown" Must ["61.1", "61.2"] "args that the backend does not hold are asked for" => unknown_in_a_call;
        for ALL_BUT_BIND: "args-known" Should ["61.2"] "args that a call brought are known to the next one" => known;
        for VERBS: "args-digest" Must ["61.3"] "args that are not those of their digest are refused" => digest;
        "args.reason" Should ["50.4"] "the status of a handshake with wrong args says that they are" => |suite|
            reasoned(given(suite, "[]").await?, InvalidArgs, "GetInfo with args `[]`");
        for VERBS: "wrong-args-reason" Should ["50.4"] "the status of a call with wrong args says that they are" => reason;
    }
}

async fn given(suite: &Suite, args: impl Into<Bytes>) -> Result<Result<(), Status>, Stop> {
    let request = api::GetInfoRequest { args: args.into(), ..suite.target.info_request() };
    let answered = suite.client.info(&request).await?;
    Ok(answered.map(drop).inspect_err(|status| suite.saw("GetInfo", status)))
}

async fn not_utf8(suite: &Suite) -> Result<(), Stop> {
    let args: &[u8] = b"{\"a\": \"\xff\"}";
    refused(given(suite, args).await?, &[Code::InvalidArgument], "args with a byte 0xff")
}

async fn not_an_object(suite: &Suite) -> Result<(), Stop> {
    for args in ["[]", "1", "\"text\""] {
        refused(given(suite, args).await?, &[Code::InvalidArgument], &format!("args `{args}`"))?;
    }
    Ok(())
}

/// The right args with a field that nobody knows.
fn with_unknown(suite: &Suite) -> String {
    let mut args: serde_json::Map<_, _> = serde_json::from_slice(&suite.args).unwrap_or_default();
    args.insert(UNKNOWN.to_owned(), true.into());
    serde_json::Value::Object(args).to_string()
}

async fn unknown(suite: &Suite) -> Result<(), Stop> {
    let answered = given(suite, with_unknown(suite)).await?;
    let what = format!("args with the unknown field {UNKNOWN:?}");
    refused(answered.clone(), &[Code::InvalidArgument], &what)?;
    match answered {
        // A policy without args says that it takes none.
        Err(status) if !suite.args.is_empty() && !status.message().contains(UNKNOWN) => {
            failed(format!("{what}: {}; the message does not name it", shown(&status)))
        }
        _ => Ok(()),
    }
}

async fn nested(suite: &Suite) -> Result<(), Stop> {
    refused(given(suite, "[".repeat(100_000)).await?, &[Code::InvalidArgument], "args of 100,000 `[`")?;
    let object = "{\"a\":".repeat(100_000);
    refused(given(suite, object).await?, &[Code::InvalidArgument], "args of 100,000 nested objects")?;
    suite.still_serves("args of 100,000 brackets").await
}

async fn huge(suite: &Suite) -> Result<(), Stop> {
    let args = format!("{{\"{UNKNOWN}\": \"{}\"}}", "x".repeat(2 << 20));
    if let Err(status) = given(suite, args).await?
        && !matches!(status.code(), Code::InvalidArgument | Code::ResourceExhausted)
    {
        return failed(format!("args of 2 MiB: {}; expected INVALID_ARGUMENT", shown(&status)));
    }
    suite.still_serves("args of 2 MiB").await
}

async fn one_by_one(suite: &Suite) -> Result<(), Stop> {
    for _ in 0..20 {
        refused(given(suite, "[]").await?, &[Code::InvalidArgument], "args `[]`")?;
        super::handshake::same(&suite.declared.info, &suite.handshake().await?, "after one with wrong args")?;
    }
    suite.still_serves("wrong args").await
}

async fn wrong_in_a_call(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let message = message(suite, verb, &Bytes::from_static(b"[]"), |_| ())?;
    suite.refused_message(verb, message, &[Code::InvalidArgument], "a call with args `[]`").await
}

async fn reason(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let message = message(suite, verb, &Bytes::from_static(b"[]"), |_| ())?;
    reasoned(suite.send(verb, message).await?, InvalidArgs, "a call with args `[]`")
}

/// A call with these args, and this change of it, which no backend should answer: what is bound is bound.
fn message(
    suite: &Suite,
    verb: Verb,
    args: &Bytes,
    change: impl FnOnce(&mut api::Call),
) -> Result<Bytes, Stop> {
    let terms = suite.terms(verb)?;
    Ok(match verb {
        Verb::Bind => super::bind::message_with_args(suite, terms, args, change),
        _ => Question::new(terms, &suite.scene(2), args).called(change).encode(),
    })
}

fn without_args(call: &mut api::Call) {
    call.args = Bytes::new();
}

/// The digest of args that were never sent, and then the args.
async fn unknown_in_a_call(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let args = suite.args_never_sent();
    asked_for(suite.send(verb, message(suite, verb, &args, without_args)?).await?)?;
    if verb == Verb::Bind { Ok(()) } else { brought(suite, verb, &args).await.map(drop) }
}

/// What came back to a digest of args that were never sent must ask for the args.
pub(super) fn asked_for<T: Clone>(answered: Result<T, Status>) -> Result<(), Stop> {
    let what = "a call with the digest of args that were never sent";
    refused(answered.clone(), &[Code::FailedPrecondition], what)?;
    reasoned(answered, ArgsUnknown, what)
}

/// How a case ends whose call with new args came back with this status.
pub(super) fn not_taken(suite: &Suite, status: &Status) -> Stop {
    match status.code() {
        Code::InvalidArgument if suite.args.is_empty() => {
            Stop::Skipped("not even `{}` is taken for args: give some with --args JSON".to_owned())
        }
        // A policy of its own for these args, which still fetches what it decides by.
        Code::Unavailable => {
            Stop::Skipped(format!("the policy for new args cannot decide yet: {}", shown(status)))
        }
        _ => Stop::refused("the same call with the args", status),
    }
}

/// The question with which args are brought to the backend.
async fn brought(suite: &Suite, verb: Verb, args: &Bytes) -> Result<Question, Stop> {
    let question = Question::new(suite.terms(verb)?, &suite.scene(2), args);
    let answered = suite.send(verb, question.encode()).await?;
    let bytes = answered.map_err(|status| not_taken(suite, &status))?;
    answer(&question, &bytes).map(|_| question)
}

async fn known(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = brought(suite, verb, &suite.args_never_sent()).await?;
    let answered = suite.send(verb, question.encode_by_digest()).await?;
    match answered {
        Ok(bytes) => answer(&question, &bytes).map(drop),
        Err(status) => {
            Err(Stop::refused("a call with the digest of args that the call before brought", &status))
        }
    }
}

/// Digests that are not those of these args.
pub(super) fn wrong_digests(args: &[u8]) -> [(&'static str, Bytes); 3] {
    [
        ("args without a digest", Bytes::new()),
        ("args with the digest of others", sha256(b"conformance")),
        ("a digest of 31 bytes", sha256(args).slice(1..)),
    ]
}

async fn digest(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let args = suite.args_never_sent();
    for (what, digest) in wrong_digests(&args) {
        let message = message(suite, verb, &args, |call| call.args_sha256 = digest)?;
        suite.refused_message_naming(verb, message, "args_sha256", &format!("a call with {what}")).await?;
    }
    Ok(())
}

/// What the backend declares for the other args, if there are some.
async fn other(suite: &Suite) -> Result<Option<(Declared, Bytes)>, Stop> {
    let Some(other) = suite.target.other() else { return Ok(None) };
    let declared = suite.client.info(&other.info_request()).await?;
    let declared = declared.map_err(|status| Stop::refused("GetInfo with --other-args", &status))?;
    Ok(Some((declared, other.args)))
}

/// Questions to each of two configured policies: after a handshake with the args of the other one, and both at once.
async fn other_args(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let terms = suite.terms(verb)?;
    let (mut objects, mut differ) = (suite.objects(), false);
    for _ in 0..10 {
        let scene = Scene::random(&mut objects, 30);
        suite.handshake().await?;
        let question = Question::new(terms, &scene, &suite.args);
        let first = suite.ask(&question).await?;
        let Some((declared, args)) = other(suite).await? else {
            return skipped("there are no other args: give valid ones with --other-args JSON");
        };
        let Some(terms) = declared.verb(verb) else {
            return skipped("the verb is not declared with --other-args");
        };
        let other = Question::new(terms, &scene, &args);
        let other_first = suite.ask(&other).await?;
        differ |= !other_first.agrees_with(&first);
        let (again, _) = try_join(suite.ask(&question), suite.ask(&other)).await?;
        same_unless_changing(suite, &question, &first, &again, "after and beside --other-args").await?;
        suite.handshake().await?;
        let (_, again) = try_join(suite.ask(&question), suite.ask(&other)).await?;
        same_unless_changing(suite, &other, &other_first, &again, "--other-args after and beside --args")
            .await?;
    }
    if differ {
        Ok(())
    } else {
        skipped("--other-args give the same answers; name some that decide otherwise")
    }
}
