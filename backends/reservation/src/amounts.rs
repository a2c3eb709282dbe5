//! Amounts of resources: sums, differences, comparison, and Kubernetes' resource lists.
//!
//! Amounts are those of the SDK, in kube-scheduler's units, and never negative here. `pods` is always 0: a pod has its
//! place on the node besides what it requests, and [`room`](super::room) treats it on its own.

use std::collections::BTreeMap;

use extender_policy_api::limits::KEY_BYTES;
use extender_policy_sdk::Resources;
use serde_json::Value;

/// The most resources of one list, those of Kubernetes included.
pub(super) const MAX_RESOURCES: usize = 32;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
const PODS: &str = "pods";

/// Nano-units of a unit, and of a thousandth of one.
const NANOS: i128 = 1_000_000_000;
const NANOS_OF_MILLI: i128 = 1_000_000;

/// A resource list as the apiserver has it: quantities by name.
pub(super) type ResourceList = BTreeMap<String, Value>;

/// The same amounts without pods and without negative ones.
pub(super) fn counted(amounts: &Resources) -> Resources {
    let mut counted = combined(amounts, &Resources::default(), |amount, _| amount.max(0));
    counted.others.retain(|_, amount| *amount > 0);
    counted
}

/// Sums within the range of the type.
pub(super) fn plus(one: &Resources, other: &Resources) -> Resources {
    combined(one, other, i64::saturating_add)
}

/// What is left of one, at least nothing.
pub(super) fn minus(one: &Resources, other: &Resources) -> Resources {
    let mut left = combined(one, other, |one, other| one.saturating_sub(other).max(0));
    left.others.retain(|_, amount| *amount > 0);
    left
}

/// The larger of the amounts of each resource.
pub(super) fn most(one: &Resources, other: &Resources) -> Resources {
    combined(one, other, i64::max)
}

/// The smaller amount of each resource.
pub(super) fn least(one: &Resources, other: &Resources) -> Resources {
    let mut least = combined(one, other, i64::min);
    least.others.retain(|_, amount| *amount > 0);
    least
}

/// The amounts of the resources of which there is something in the other.
pub(super) fn listed(amounts: &Resources, by: &Resources) -> Resources {
    let mut listed = combined(amounts, by, |amount, by| if by > 0 { amount } else { 0 });
    listed.others.retain(|_, amount| *amount > 0);
    listed
}

/// Whether every wanted amount is available.
pub(super) fn fits(wanted: &Resources, available: &Resources) -> bool {
    let other = |(name, amount): (&String, &i64)| *amount <= available.others.get(name).copied().unwrap_or(0);
    wanted.milli_cpu <= available.milli_cpu
        && wanted.memory <= available.memory
        && wanted.ephemeral_storage <= available.ephemeral_storage
        && wanted.others.iter().all(other)
}

/// Whether there is nothing.
pub(super) fn is_nothing(amounts: &Resources) -> bool {
    fits(amounts, &Resources::default())
}

/// The largest of the shares that `part` has of the resources of `whole`, as percentage from 0 to 100.
pub(super) fn largest_percent(part: &Resources, whole: &Resources) -> i32 {
    let own = [
        (part.milli_cpu, whole.milli_cpu),
        (part.memory, whole.memory),
        (part.ephemeral_storage, whole.ephemeral_storage),
    ];
    let others =
        whole.others.iter().map(|(name, whole)| (part.others.get(name).copied().unwrap_or(0), *whole));
    let shares = own.into_iter().chain(others).filter(|(_, whole)| *whole > 0);
    let percent = shares.map(|(part, whole)| i128::from(part) * 100 / i128::from(whole)).max().unwrap_or(0);
    i32::try_from(percent.clamp(0, 100)).unwrap_or(100)
}

fn combined(one: &Resources, other: &Resources, by: impl Fn(i64, i64) -> i64) -> Resources {
    let mut others = BTreeMap::new();
    for name in one.others.keys().chain(other.others.keys()) {
        let amount = |of: &Resources| of.others.get(name).copied().unwrap_or(0);
        others.insert(name.clone(), by(amount(one), amount(other)));
    }
    Resources {
        milli_cpu: by(one.milli_cpu, other.milli_cpu),
        memory: by(one.memory, other.memory),
        ephemeral_storage: by(one.ephemeral_storage, other.ephemeral_storage),
        pods: 0,
        others,
    }
}

/// The amounts of a resource list, each rounded up. Pods are left out.
///
/// # Errors
/// The list is too long, or has a name or a quantity that cannot be used; the text says which.
pub(super) fn parse(list: &ResourceList) -> Result<Resources, String> {
    if list.len() > MAX_RESOURCES {
        return Err(format!("there are {} resources; expected at most {MAX_RESOURCES}", list.len()));
    }
    let mut amounts = Resources::default();
    for (name, quantity) in list {
        if name.is_empty() || name.len() > KEY_BYTES {
            return Err(format!(
                "the name of a resource has {} bytes; expected 1 to {KEY_BYTES}",
                name.len()
            ));
        }
        let nanos = nanos(quantity).filter(|nanos| *nanos >= 0);
        let nanos = nanos.ok_or_else(|| format!("{name}: the quantity is invalid or negative"))?;
        match name.as_str() {
            CPU => amounts.milli_cpu = rounded_up(nanos, NANOS_OF_MILLI),
            MEMORY => amounts.memory = rounded_up(nanos, NANOS),
            EPHEMERAL_STORAGE => amounts.ephemeral_storage = rounded_up(nanos, NANOS),
            PODS => {}
            _ => drop(amounts.others.insert(name.clone(), rounded_up(nanos, NANOS))),
        }
    }
    Ok(counted(&amounts))
}

/// As a resource list; amounts of 0 are left out.
pub(super) fn list(amounts: &Resources) -> ResourceList {
    let Resources { milli_cpu, memory, ephemeral_storage, pods: _, others } = amounts;
    let cpu = if milli_cpu % 1_000 == 0 { (milli_cpu / 1_000).to_string() } else { format!("{milli_cpu}m") };
    let own = [(CPU, *milli_cpu, cpu), (MEMORY, *memory, memory.to_string())];
    let own = own.into_iter().chain([(EPHEMERAL_STORAGE, *ephemeral_storage, ephemeral_storage.to_string())]);
    let own = own.map(|(name, amount, text)| (name.to_owned(), amount, text));
    let others = others.iter().map(|(name, amount)| (name.clone(), *amount, amount.to_string()));
    let all = own.chain(others).filter(|(_, amount, _)| *amount > 0);
    all.map(|(name, _, text)| (name, Value::String(text))).collect()
}

fn rounded_up(nanos: i128, unit: i128) -> i64 {
    let whole = nanos / unit + i128::from(nanos % unit > 0);
    i64::try_from(whole).unwrap_or(i64::MAX)
}

/// A quantity in nano-units, finer ones rounded up; `None` if it is invalid.
fn nanos(quantity: &Value) -> Option<i128> {
    match quantity {
        Value::String(text) => parsed(text.trim()),
        Value::Number(number) => parsed(&number.to_string()),
        _ => None,
    }
}

/// Mirrors `resource.ParseQuantity`, for numbers with a digit.
fn parsed(text: &str) -> Option<i128> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (-1, unsigned),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let scale = Scale::of(suffix)?;
    // More digits do not fit into the type, and finer ones only round up.
    let fine = &fraction[..fraction.len().min(18)];
    let digits = format!("{whole}{fine}");
    let digits = digits.trim_start_matches('0');
    if digits.len() > 36 {
        return Some(sign * i128::MAX);
    }
    let number: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let rest = fraction.bytes().skip(fine.len()).any(|digit| digit != b'0');
    let magnitude = scale.nanos(number, i32::try_from(fine.len()).ok()?);
    Some(sign * magnitude.saturating_add(i128::from(rest)))
}

/// What a suffix multiplies by.
enum Scale {
    Decimal(i32),
    Binary(u32),
}

impl Scale {
    fn of(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "" => Self::Decimal(0),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            "Ki" => Self::Binary(10),
            "Mi" => Self::Binary(20),
            "Gi" => Self::Binary(30),
            "Ti" => Self::Binary(40),
            "Pi" => Self::Binary(50),
            "Ei" => Self::Binary(60),
            _ => Self::Decimal(suffix.strip_prefix(['e', 'E'])?.parse::<i8>().ok()?.into()),
        })
    }

    /// A number with this many decimals, in nano-units, rounded up.
    fn nanos(&self, number: i128, decimals: i32) -> i128 {
        let (factor, power) = match self {
            Self::Decimal(exponent) => (1, exponent + 9 - decimals),
            Self::Binary(exponent) => (1_i128 << exponent, 9 - decimals),
        };
        let ten = |power: i32| 10_i128.checked_pow(power.unsigned_abs());
        let Some(scaled) = number.checked_mul(factor) else { return i128::MAX };
        if power >= 0 {
            return ten(power).and_then(|ten| scaled.checked_mul(ten)).unwrap_or(if scaled == 0 {
                0
            } else {
                i128::MAX
            });
        }
        let ten = ten(power).unwrap_or(i128::MAX);
        scaled / ten + i128::from(scaled % ten > 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::arbitrary;

    #[test]
    fn the_largest_share_counts() {
        let amounts = |milli_cpu, memory, gpus| Resources {
            milli_cpu,
            memory,
            others: [("gpu".to_owned(), gpus)].into(),
            ..Resources::default()
        };
        let whole = amounts(4_000, 100, 3);
        assert_eq!(largest_percent(&amounts(1_000, 10, 0), &whole), 25);
        assert_eq!(largest_percent(&amounts(1_000, 10, 1), &whole), 33);
        assert_eq!(largest_percent(&amounts(i64::MAX, 0, 0), &whole), 100);
        assert_eq!(largest_percent(&whole, &Resources::default()), 0);
    }

    #[test]
    fn quantities_are_those_of_kubernetes_rounded_up() {
        for (quantity, milli, whole) in [
            (json!("100m"), 100, 1),
            (json!(2), 2_000, 2),
            (json!(1.5), 1_500, 2),
            (json!("1.5Gi"), 1_610_612_736_000, 1_610_612_736),
            (json!("1e3"), 1_000_000, 1_000),
            (json!("1E"), 1_000_000_000_000_000_000_000, 1_000_000_000_000_000_000),
            (json!("1n"), 1, 1),
            (json!("0.0000000000000000001"), 1, 1),
            (json!(".5"), 500, 1),
            (json!("+5."), 5_000, 5),
            (json!(" 7 "), 7_000, 7),
            (json!("0e100"), 0, 0),
            (json!("9Ei"), i128::MAX, i64::MAX),
            (json!("99999999999999999999999999999999999999999"), i128::MAX, i64::MAX),
            (json!("1e100"), i128::MAX, i64::MAX),
            (json!("1e-100"), 1, 1),
        ] {
            let nanos = nanos(&quantity).unwrap();
            let milli = i64::try_from(milli).unwrap_or(i64::MAX);
            assert_eq!(
                (rounded_up(nanos, NANOS_OF_MILLI), rounded_up(nanos, NANOS)),
                (milli, whole),
                "{quantity}"
            );
        }
    }

    #[test]
    fn other_texts_are_no_quantities() {
        for text in ["", ".", "-", "1..2", "1.2.3", "one", "1KiB", "1e", "1e999", "0x1", "1 Gi", "٣"] {
            assert_eq!(nanos(&json!(text)), None, "{text}");
        }
        assert_eq!(nanos(&json!(["1"])), None);
        let list = |name: &str, quantity: &str| [(name.to_owned(), json!(quantity))].into();
        assert!(parse(&list("cpu", "-1")).unwrap_err().contains("cpu: the quantity is invalid or negative"));
        assert!(parse(&list("", "1")).is_err() && parse(&list(&"n".repeat(318), "1")).is_err());
        let long: ResourceList = (0..33).map(|n| (format!("example.com/{n}"), json!("1"))).collect();
        assert!(parse(&long).unwrap_err().contains("33 resources; expected at most 32"));
    }

    #[test]
    fn what_fits_is_there_in_every_resource() {
        let amounts = |milli_cpu, gpus| Resources {
            milli_cpu,
            others: [("example.com/gpu".to_owned(), gpus)].into(),
            ..Resources::default()
        };
        assert!(fits(&amounts(1, 1), &amounts(1, 1)));
        assert!(!fits(&amounts(2, 1), &amounts(1, 1)) && !fits(&amounts(1, 2), &amounts(1, 1)));
        assert!(!fits(&amounts(0, 1), &Resources::default()) && fits(&amounts(0, 0), &Resources::default()));
        assert!(!fits(&Resources { memory: 1, ..Resources::default() }, &amounts(9, 9)));
        assert!(!fits(&Resources { ephemeral_storage: 1, ..Resources::default() }, &amounts(9, 9)));
    }

    proptest! {
        #[test]
        fn a_list_is_read_as_it_was_written(amounts in arbitrary::resources()) {
            let amounts = counted(&amounts);
            prop_assert_eq!(parse(&list(&amounts)).unwrap(), amounts);
        }

        #[test]
        fn what_is_taken_and_given_back_is_as_before(one in arbitrary::resources(), other in arbitrary::resources()) {
            let (one, other) = (counted(&one), counted(&other));
            prop_assert_eq!(minus(&plus(&one, &other), &other), one.clone());
            prop_assert_eq!(fits(&other, &one), plus(&minus(&one, &other), &other) == one);
        }

        #[test]
        fn no_text_panics(text in ".{0,40}", number in "[-+]?[0-9.]{0,50}([a-zA-Z]{0,2}|[eE][-+]?[0-9]{0,4})") {
            nanos(&json!(text));
            nanos(&json!(number));
        }
    }
}
