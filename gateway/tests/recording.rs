//! The cost of recording a call after its response: no allocation in the steady state.

use std::{hint::black_box, time::Duration};

use allocation_counter::measure;
use extender_gateway_core::{FailureKind, PolicyVerb, Verb};
use extender_gateway_observe::{
    Metrics,
    metrics::{BackendMetrics, VerbMetrics},
};
use extender_gateway_record::{Agreement, CallOutcome, OnFailure};

const TOOK: Duration = Duration::from_micros(300);

fn record(filter: &VerbMetrics, backend: &BackendMetrics) {
    let call = filter.begin();
    let zones = &backend.verbs[PolicyVerb::Filter];
    zones.asked(400);
    zones.remembered.inc_by(20);
    zones.count_bytes(4_000, 60);
    zones.answered(TOOK, None);
    backend.count_rejected("in drain", 3);
    backend.record_share(PolicyVerb::Filter, 3, 420);
    zones.failed((FailureKind::Late, Some(OnFailure::Ignore)), TOOK, None);
    zones.shadowed(Agreement::Agrees);
    filter.count_nodes(420, 417);
    filter.count_bytes(12_000, 9_000);
    filter.answered(CallOutcome::Ok, TOOK, None);
    filter.answered(CallOutcome::Backend, TOOK, None);
    drop(call);
}

#[test]
fn recording_does_not_allocate() {
    let metrics = Metrics::new();
    let (filter, zones) = (metrics.verb(Some(Verb::Filter)), metrics.backend("zones"));
    record(&filter, &zones);
    let used = measure(|| (0..100).for_each(|_| record(black_box(&filter), black_box(&zones))));
    assert_eq!(used.count_total, 0, "{used:?}");
    assert_eq!((filter.calls(), zones.verbs[PolicyVerb::Filter].calls()), (202, 101));
}

#[test]
fn an_exemplar_allocates_for_the_first_of_its_bucket_alone() {
    let metrics = Metrics::new();
    let filter = metrics.verb(Some(Verb::Filter));
    filter.answered(CallOutcome::Ok, TOOK, Some([6; 16]));
    let used = measure(|| (0..100).for_each(|_| filter.answered(CallOutcome::Ok, TOOK, Some([7; 16]))));
    assert_eq!(used.count_total, 0, "{used:?}");
}
