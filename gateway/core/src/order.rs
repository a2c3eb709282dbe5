//! The effective order of backends.

use crate::FailurePolicy;

/// The positions of backends in the order in which their verdicts count: those whose filter policy is
/// [`FailurePolicy::Fail`] first, then the others, with them those that do not filter (`None`); the given
/// order within each group.
///
/// Mirrors `buildExtenders` of kube-scheduler, which puts ignorable extenders last.
pub fn effective(filters: &[Option<FailurePolicy>]) -> Vec<usize> {
    let (mut order, last): (Vec<_>, Vec<_>) =
        (0..filters.len()).partition(|&at| filters[at] == Some(FailurePolicy::Fail));
    order.extend(last);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use FailurePolicy::{Fail, Ignore};

    #[test]
    fn ignorable_backends_and_those_that_do_not_filter_come_last_in_file_order() {
        let order = effective(&[None, Some(Ignore), Some(Fail), None, Some(Fail)]);
        assert_eq!(order, [2, 4, 0, 1, 3]);
    }
}
