//! The operator's args, in the handshake and in each call.

use bytes::Bytes;
use extender_policy_api::v1beta1 as api;
use futures_util::future::try_join;
use tonic::Code;

use super::calls::same_unless_changing;
use crate::{
    case::{self, Case, Stop, failed, skipped},
    client::shown,
    declared::{ALL_BUT_BIND, Declared, VERBS, Verb},
    question::{Question, Scene},
    suite::{Suite, refused},
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
    }
}

async fn given(suite: &Suite, args: impl Into<Bytes>) -> Result<Result<(), tonic::Status>, Stop> {
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
    let terms = suite.terms(verb)?;
    let args = Bytes::from_static(b"[]");
    if verb == Verb::Bind {
        return super::bind::refused_with_args(suite, terms, &args).await;
    }
    let question = Question::new(terms, &suite.scene(2), &args);
    suite.refused(&question, Code::InvalidArgument, "a call with args `[]`").await
}

/// What the backend declares for the other args, if there are some.
pub(super) async fn other(suite: &Suite) -> Result<Option<(Declared, Bytes)>, Stop> {
    let Some(other) = suite.target.other() else { return Ok(None) };
    let info = suite.client.info(&other.info_request()).await?;
    let info = info.map_err(|status| Stop::refused("GetInfo with --other-args", &status))?;
    Ok(Some((Declared { info }, other.args)))
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
