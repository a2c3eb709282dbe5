//! Quantities compared with tables by apimachinery's own rules, and with unlimited arithmetic.

use num_bigint::BigInt;
use proptest::prelude::*;

use super::Quantity;

#[test]
fn milli_and_whole_values() {
    let cases = [
        // text, MilliValue, Value
        ("0", 0, 0),
        ("1", 1000, 1),
        ("100m", 100, 1),
        ("1500m", 1500, 2),
        ("0.5", 500, 1),
        (".5", 500, 1),
        ("5.", 5000, 5),
        ("+5", 5000, 5),
        ("-5", -5000, -5),
        ("-1500m", -1500, -2),
        ("1k", 1_000_000, 1000),
        ("1Ki", 1_024_000, 1024),
        ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
        ("1e3", 1_000_000, 1000),
        ("1E3", 1_000_000, 1000),
        ("1e-3", 1, 1),
        ("1e+3", 1_000_000, 1000),
        ("1E", i64::MAX, 1_000_000_000_000_000_000),
        ("12Ei", i64::MAX, i64::MAX),
        ("-12Ei", i64::MIN, i64::MIN),
        ("9223372036854775807", i64::MAX, i64::MAX),
        ("9223372036854775808", i64::MAX, i64::MAX),
        ("1e99", i64::MAX, i64::MAX),
        ("0e99", 0, 0),
        ("1e9223372036854775807", i64::MAX, i64::MAX),
        ("1e-9223372036854775808", 1, 1),
        ("1n", 1, 1),
        ("0.1n", 1, 1),
        ("1u", 1, 1),
        ("1000u", 1, 1),
        ("1001u", 2, 1),
        ("0.00000000000000000000000000000000000000000000001", 1, 1),
        ("0.00000000000000000000000000000000000000000000001e48", 10_000, 10),
        ("1.00000000000000000000000000000000000000000000001Gi", 1_073_741_824_001, 1_073_741_825),
        ("00012", 12_000, 12),
        // Go parses these as zero; so does a cluster that stored them.
        (".", 0, 0),
        ("-", 0, 0),
        ("Ki", 0, 0),
        ("m", 0, 0),
    ];
    for (text, milli, whole) in cases {
        let quantity = Quantity::parse(text).unwrap();
        assert_eq!((quantity.milli_value(), quantity.value()), (milli, whole), "{text}");
    }
}

#[test]
fn refuses_what_apimachinery_refuses() {
    let cases = [
        "",
        " ",
        "1 ",
        "x",
        "1x",
        "1.2.3",
        "1e",
        "1e1.5",
        "1ki",
        "1KI",
        "1i",
        "1mi",
        "1Ei3",
        "--1",
        "1m1",
        "0x10",
        "1,5",
        "1e99999999999999999999",
        "١",
    ];
    for text in cases {
        let error = Quantity::parse(text).unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")) && error.contains("1.5Gi"), "{error}");
    }
}

#[test]
fn json_numbers_strings_and_null() {
    let cases = [
        (r#""100m""#, 100),
        (r#"" 2 ""#, 2000),
        ("2", 2000),
        ("-2", -2000),
        ("0.1", 100),
        ("1e3", 1_000_000),
        ("1e40", i64::MAX),
        ("null", 0),
    ];
    for (json, milli) in cases {
        assert_eq!(serde_json::from_str::<Quantity>(json).unwrap().milli_value(), milli, "{json}");
    }
    for json in ["true", "[]", "{}", r#""""#] {
        assert!(serde_json::from_str::<Quantity>(json).is_err(), "{json}");
    }
}

#[test]
fn sums_are_exact_before_they_are_rounded() {
    let quantity = |text| Quantity::parse(text).unwrap();
    assert_eq!(quantity("100u").plus(quantity("100u")).milli_value(), 1);
    assert_eq!(quantity("1.5").plus(quantity("1.5")).value(), 3);
    assert_eq!(quantity("8Ei").plus(quantity("1")).value(), i64::MAX);
    assert_eq!(quantity("1e99").plus(quantity("1e99")).value(), i64::MAX);
}

/// A decimal number, its suffix, and the suffix as factor: numerator and power of ten below.
fn suffix() -> impl Strategy<Value = (String, BigInt, u32)> {
    let decimal = [
        ("n", 0),
        ("u", 3),
        ("m", 6),
        ("", 9),
        ("k", 12),
        ("M", 15),
        ("G", 18),
        ("T", 21),
        ("P", 24),
        ("E", 27),
    ];
    let binary = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
    let ten = |power: u32| BigInt::from(10).pow(power);
    prop_oneof![
        proptest::sample::select(decimal.to_vec()).prop_map(move |(text, power)| (
            text.to_owned(),
            ten(power),
            9
        )),
        proptest::sample::select(binary.to_vec()).prop_map(|(text, power)| (
            text.to_owned(),
            BigInt::from(1_u64 << power),
            0
        )),
        (0_u32..30).prop_map(move |power| (format!("e{power}"), ten(power), 0)),
        (1_u32..30).prop_map(|power| (format!("E-{power}"), BigInt::from(1), power)),
    ]
}

/// Rounds away from zero and saturates.
fn scaled(numerator: &BigInt, power_below: u32, units: u32) -> i64 {
    let numerator = numerator * BigInt::from(units);
    let denominator = BigInt::from(10).pow(power_below);
    let rounding = &denominator - BigInt::from(1);
    let magnitude = (BigInt::from(numerator.magnitude().clone()) + rounding) / denominator;
    let negative = numerator < BigInt::from(0);
    i64::try_from(magnitude)
        .map_or(if negative { i64::MIN } else { i64::MAX }, |whole| if negative { -whole } else { whole })
}

proptest! {
    #[test]
    fn agrees_with_unbounded_arithmetic(
        sign in "[-+]?", whole in "[0-9]{1,25}", fraction in "(\\.[0-9]{0,45})?", (suffix, factor, below) in suffix(),
    ) {
        let text = format!("{sign}{whole}{fraction}{suffix}");
        let digits: BigInt = format!("{whole}{}", fraction.trim_start_matches('.')).parse().unwrap();
        let places = u32::try_from(fraction.len().saturating_sub(1)).unwrap();
        let exact = digits * factor * if sign == "-" { -1 } else { 1 };
        let quantity = Quantity::parse(&text).unwrap();
        prop_assert_eq!(quantity.milli_value(), scaled(&exact, places + below, 1000), "{}", text);
        prop_assert_eq!(quantity.value(), scaled(&exact, places + below, 1), "{}", text);
    }

    #[test]
    fn never_panics(text in "\\PC*", number in "[-+]?[0-9.]{0,60}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,20}") {
        for text in [text, number] {
            if let Ok(quantity) = Quantity::parse(&text) {
                let _ = (quantity.milli_value(), quantity.value(), quantity.plus(quantity));
            }
        }
    }
}
