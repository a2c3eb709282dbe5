//! What the backend says about itself.

use std::{collections::BTreeSet, ops::RangeInclusive};

use extender_policy_api::limits::{
    HANDSHAKE_ENTRIES, HANDSHAKE_TEXT_BYTES, NAME_BYTES, REVISION_BYTES, VERSION_BYTES,
};
use extender_policy_api::v1beta1 as api;
use futures_util::future::try_join_all;
use prost::Message as _;

use crate::{
    answer::{at_most, few},
    case::{self, Case, Stop, failed, skipped},
    client::{Extras, decoded, shown},
    declared::{CACHEABLE, Terms, Verb},
    suite::Suite,
};

/// So many handshakes, one after the other and at once.
const REPEATED: usize = 100;
const AT_ONCE: usize = 50;

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "handshake.name" Must ["6.1"] "name is neither empty nor too long" => name;
        "handshake.version" Must ["8.3"] "version is not too long" => |suite|
            Ok(at_most("`version`", &suite.declared.info.version, VERSION_BYTES)?);
        "handshake.revision" Must ["8.3"] "revision is not too long" => |suite|
            Ok(at_most("`revision`", &suite.declared.info.revision, REVISION_BYTES)?);
        "handshake.revision-set" Should ["7.1"] "there is a revision" => revision_set;
        "handshake.api-version" Must ["6.2"] "api_version is this package" => api_version;
        "handshake.requires" Must ["8.1"] "requires names nothing unknown" => requires;
        "handshake.services" Must ["8.3"] "services are few and short" => services;
        "handshake.max-request-bytes" Should ["4.1"] "max_request_bytes is some megabytes" => max_request_bytes;
        "handshake.verbs" Must ["2.1"] "at least one verb is listed" => verbs;
        "handshake.verbs-once" Must ["6.1"] "each verb is listed once" => verbs_once;
        "handshake.enums" Must ["6.3"] "scope, effects and normalization are known" => enums;
        "handshake.score-range" Must ["6.4"] "the bounds of scores fit the normalization" => score_range;
        "handshake.score-scale" Should ["14.3"] "scores are at most 10, or normalized" => score_scale;
        "handshake.reversed" Must ["6.4"] "reversed scores are normalized" => reversed;
        "handshake.pure" Must ["29.1", "42.1"] "a pure verb declares nothing that excludes it" => pure;
        "handshake.table" Must ["18.1"] "a listed NodeTableService is served" => table;
        "handshake.stable" Must ["5.1"] "100 handshakes in a row are equal" => stable;
        "handshake.at-once" Must ["5.1"] "50 handshakes at once are equal" => at_once;
        "handshake.other-connection" Must ["3.1"] "it is the same on another connection" => other_connection;
        "handshake.later-gateway" Must ["8.4"] "unknown API versions and fields are ignored" => later_gateway;
    }
}

async fn name(suite: &Suite) -> Result<(), Stop> {
    let name = &suite.declared.info.name;
    if name.is_empty() {
        return failed("`name` is empty");
    }
    Ok(at_most("`name`", name, NAME_BYTES)?)
}

async fn revision_set(suite: &Suite) -> Result<(), Stop> {
    if suite.declared.info.revision.is_empty() {
        return failed("`revision` is empty: the gateway caches no answers, and does not notice new rules");
    }
    Ok(())
}

async fn api_version(suite: &Suite) -> Result<(), Stop> {
    let given = &suite.declared.info.api_version;
    if given != "extender.policy.v1beta1" {
        return failed(format!("`api_version` is {given:?}; expected \"extender.policy.v1beta1\""));
    }
    Ok(())
}

async fn requires(suite: &Suite) -> Result<(), Stop> {
    match suite.declared.info.requires.as_slice() {
        [] => Ok(()),
        names => failed(format!("`requires` has {names:?}; this version of the API defines no names")),
    }
}

async fn services(suite: &Suite) -> Result<(), Stop> {
    let services = &suite.declared.info.services;
    few("services", services.len(), HANDSHAKE_ENTRIES)?;
    Ok(services.iter().try_for_each(|service| at_most("`services`", service, HANDSHAKE_TEXT_BYTES))?)
}

/// From about some megabytes to the largest message of gRPC.
const REQUESTS: RangeInclusive<u64> = 1 << 20..=u32::MAX as u64;

async fn max_request_bytes(suite: &Suite) -> Result<(), Stop> {
    let limit = suite.declared.max_request_bytes();
    if REQUESTS.contains(&limit) {
        return Ok(());
    }
    failed(format!("`max_request_bytes` is {limit}; expected some megabytes, within {REQUESTS:?}"))
}

async fn verbs(suite: &Suite) -> Result<(), Stop> {
    if suite.declared.verbs().next().is_none() {
        return failed("`verbs` lists neither VERB_FILTER, VERB_SCORE, VERB_PREEMPT, VERB_BIND nor a hook");
    }
    Ok(())
}

async fn verbs_once(suite: &Suite) -> Result<(), Stop> {
    let mut seen = BTreeSet::new();
    let listed = &suite.declared.info.verbs;
    few("verbs", listed.len(), HANDSHAKE_ENTRIES)?;
    match listed.iter().find(|verb| !seen.insert(verb.verb)) {
        Some(twice) => failed(format!("`verbs` lists {} twice", twice.verb().as_str_name())),
        None => Ok(()),
    }
}

async fn enums(suite: &Suite) -> Result<(), Stop> {
    for terms in suite.declared.verbs() {
        let verb = terms.verb.name();
        if api::Scope::try_from(terms.info.scope).is_err() {
            return failed(format!("{verb} has the unknown `scope` {}", terms.info.scope));
        }
        if api::Effects::try_from(terms.info.effects).is_err() {
            return failed(format!("{verb} has the unknown `effects` {}", terms.info.effects));
        }
        if api::Normalization::try_from(terms.info.normalization).is_err() {
            return failed(format!("{verb} has the unknown `normalization` {}", terms.info.normalization));
        }
    }
    Ok(())
}

async fn score_range(suite: &Suite) -> Result<(), Stop> {
    let terms = suite.terms(Verb::Score)?;
    let (min, max) = (terms.info.score_min, terms.info.score_max);
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        return failed(format!("`score_min` is {min} and `score_max` is {max}"));
    }
    let range = terms.info.normalization() == api::Normalization::Range;
    if range && !matches!((min, max), (Some(min), Some(max)) if min < max) {
        return failed(
            "NORMALIZATION_RANGE requires both `score_min` and `score_max`, with score_min < score_max",
        );
    }
    Ok(())
}

/// Whether scores are not normalized.
fn is_plain(terms: Terms<'_>) -> bool {
    matches!(terms.info.normalization(), api::Normalization::None | api::Normalization::Unspecified)
}

async fn score_scale(suite: &Suite) -> Result<(), Stop> {
    let terms = suite.terms(Verb::Score)?;
    let none = is_plain(terms);
    match terms.info.score_max {
        Some(max) if none && max > 10 => failed(format!("`score_max` is {max}, without a normalization")),
        None if none => failed("there is no `score_max` and no normalization"),
        _ => Ok(()),
    }
}

async fn reversed(suite: &Suite) -> Result<(), Stop> {
    let terms = suite.terms(Verb::Score)?;
    if terms.info.reversed && is_plain(terms) {
        return failed("`reversed` is set, and `normalization` is NORMALIZATION_NONE");
    }
    Ok(())
}

async fn pure(suite: &Suite) -> Result<(), Stop> {
    if suite.declared.verb(Verb::Preempt).is_some_and(Terms::is_pure) {
        return failed("preempt is pure, and its answers depend on the victims");
    }
    let pure: Vec<_> = CACHEABLE
        .iter()
        .filter_map(|verb| suite.declared.verb(*verb))
        .filter(|terms| terms.is_pure())
        .collect();
    if pure.is_empty() {
        return skipped("no verb is declared pure");
    }
    pure.into_iter().try_for_each(|terms| match excludes_pure(terms) {
        Some(what) => failed(format!("{} is pure and {what}", terms.verb.name())),
        None => Ok(()),
    })
}

fn excludes_pure(terms: Terms<'_>) -> Option<&'static str> {
    let excluded = [
        (terms.verb.has_nodes() && !terms.is_per_node(), "its scope is not SCOPE_NODE"),
        (terms.reads_node(api::NodePart::RawJson), "reads NODE_PART_RAW_JSON"),
        (terms.reads_pod(api::PodPart::RawJson), "reads POD_PART_RAW_JSON"),
        (terms.reads_pod(api::PodPart::Identity), "reads POD_PART_IDENTITY"),
    ];
    excluded.into_iter().find(|(found, _)| *found).map(|(_, what)| what)
}

async fn table(suite: &Suite) -> Result<(), Stop> {
    if !suite.declared.holds_tables() {
        return skipped("NodeTableService is not listed in `services`");
    }
    let terms = crate::table::table_verb(suite)?;
    crate::table::filled(suite, terms, &suite.scene(1)).await?.close().await
}

pub(super) fn same(
    first: &api::GetInfoResponse,
    other: &api::GetInfoResponse,
    which: &str,
) -> Result<(), Stop> {
    // A policy with data of its own changes its revision whenever that changes, and another replica may begin to lead.
    let lasting = |info: &api::GetInfoResponse| api::GetInfoResponse {
        revision: String::new(),
        controllers: None,
        rejected_configuration: String::new(),
        ..info.clone()
    };
    if lasting(first) == lasting(other) {
        return Ok(());
    }
    failed(format!("the handshake {which} differs: {first:?} became {other:?}"))
}

async fn stable(suite: &Suite) -> Result<(), Stop> {
    for number in 2..=REPEATED {
        same(&suite.declared.info, &suite.handshake().await?, &format!("number {number}"))?;
    }
    Ok(())
}

async fn at_once(suite: &Suite) -> Result<(), Stop> {
    let handshakes = try_join_all((0..AT_ONCE).map(|_| suite.handshake())).await?;
    handshakes.iter().try_for_each(|info| same(&suite.declared.info, info, "beside 49 others"))
}

async fn other_connection(suite: &Suite) -> Result<(), Stop> {
    let client = suite.connect().await?;
    same(&suite.declared.info, &suite.handshake_on(&client).await?, "on another connection")
}

async fn later_gateway(suite: &Suite) -> Result<(), Stop> {
    let mut request = suite.target.info_request();
    request.api_versions.insert(0, "extender.policy.v99".to_owned());
    let message = super::calls::with_unknown_fields(&request.encode_to_vec());
    let answered = suite.client.unary("GetInfo", message, Extras::default()).await?;
    match decoded("GetInfo", answered)? {
        Ok(info) => same(&suite.declared.info, &info, "for a later gateway"),
        Err(status) => failed(format!("GetInfo with unknown API versions and fields: {}", shown(&status))),
    }
}
