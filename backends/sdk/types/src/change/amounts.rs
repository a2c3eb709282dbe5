//! Adds up the amounts of a change. An amount of zero changes nothing and is left out.

use extender_policy_api::v1beta1::{NodeUsage, NonZero, Resources};

/// The sum of these resources; `None` if it is nothing.
pub(super) fn resources(one: Option<Resources>, other: Resources) -> Option<Resources> {
    let mut sum = one.unwrap_or_default();
    let Resources { milli_cpu, memory, ephemeral_storage, pods, others } = other;
    add(&mut sum.milli_cpu, milli_cpu);
    add(&mut sum.memory, memory);
    add(&mut sum.ephemeral_storage, ephemeral_storage);
    add(&mut sum.pods, pods);
    for (name, amount) in others {
        add(sum.others.entry(name).or_default(), amount);
    }
    sum.others.retain(|_, amount| *amount != 0);
    Some(sum).filter(|sum| *sum != Resources::default())
}

/// The sum of this usage; `None` if it is nothing.
pub(super) fn usage(one: Option<NodeUsage>, other: NodeUsage) -> Option<NodeUsage> {
    let NodeUsage { requested, nonzero } = one.unwrap_or_default();
    let requested = match other.requested {
        Some(other) => resources(requested, other),
        None => requested,
    };
    let nonzero = match other.nonzero {
        Some(other) => nonzeros(nonzero, other),
        None => nonzero,
    };
    Some(NodeUsage { requested, nonzero }).filter(|sum| *sum != NodeUsage::default())
}

fn nonzeros(one: Option<NonZero>, other: NonZero) -> Option<NonZero> {
    let mut sum = one.unwrap_or_default();
    add(&mut sum.milli_cpu, other.milli_cpu);
    add(&mut sum.memory, other.memory);
    Some(sum).filter(|sum| *sum != NonZero::default())
}

fn add(sum: &mut i64, amount: i64) {
    *sum = sum.saturating_add(amount);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(milli_cpu: i64, slots: i64) -> Resources {
        let others = [("example.com/slots".to_owned(), slots)].into();
        Resources { milli_cpu, others, ..Resources::default() }
    }

    #[test]
    fn amounts_add_up_within_the_range_of_the_type() {
        assert_eq!(resources(Some(cpu(1, 2)), cpu(3, 4)), Some(cpu(4, 6)));
        assert_eq!(resources(Some(cpu(i64::MAX, 1)), cpu(1, 1)), Some(cpu(i64::MAX, 2)));
        let nonzero = Some(NonZero { milli_cpu: -1, memory: 5 });
        let added = usage(None, NodeUsage { requested: Some(cpu(1, 1)), nonzero });
        let added = usage(added, NodeUsage { requested: None, nonzero });
        let twice = Some(NonZero { milli_cpu: -2, memory: 10 });
        assert_eq!(added, Some(NodeUsage { requested: Some(cpu(1, 1)), nonzero: twice }));
    }

    #[test]
    fn nothing_is_none() {
        assert_eq!(resources(None, cpu(0, 0)), None);
        assert_eq!(resources(Some(cpu(1, 2)), cpu(-1, -2)), None);
        let zero = NodeUsage { requested: Some(cpu(0, 0)), nonzero: Some(NonZero::default()) };
        assert_eq!(usage(None, zero), None);
    }
}
