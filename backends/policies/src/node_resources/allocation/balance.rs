//! Scores how evenly the resources of a node are used. Mirrors `balancedResourceScorer` of kube-scheduler's plugin
//! `NodeResourcesBalancedAllocation`, in the same floating-point operations.

use super::{Load, WHOLE};

/// 50 to 100: 75 for a pod that changes nothing, more if it makes the usage more even.
pub(super) fn score(loads: &[Load]) -> i64 {
    let with_pod = evenness(loads, |load| load.after);
    let without_pod = evenness(loads, |load| load.before);
    WHOLE / 2 + (WHOLE / 2 + with_pod - without_pod) / 2
}

/// 50 to 100: a hundred minus the standard deviation of the used fractions, in hundredths, rounded down.
#[expect(clippy::cast_possible_truncation, reason = "the deviation of fractions is 0 to 0.5")]
#[expect(clippy::cast_precision_loss, reason = "as kube-scheduler rounds")]
fn evenness(loads: &[Load], requested: impl Fn(&Load) -> i64) -> i64 {
    let fraction = |load| (requested(load) as f64 / load.capacity as f64).min(1.0);
    let fractions: Vec<_> = loads.iter().map(fraction).collect();
    ((1.0 - deviation(&fractions)) * WHOLE as f64) as i64
}

#[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^52 resources")]
fn deviation(fractions: &[f64]) -> f64 {
    match fractions {
        [] | [_] => 0.0,
        [one, other] => ((one - other) / 2.0).abs(),
        _ => {
            let count = fractions.len() as f64;
            let mean = fractions.iter().sum::<f64>() / count;
            let squares: f64 = fractions.iter().map(|fraction| (fraction - mean) * (fraction - mean)).sum();
            (squares / count).sqrt()
        }
    }
}
