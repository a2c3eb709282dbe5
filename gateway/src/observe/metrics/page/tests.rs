use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{
    super::{
        family::Family,
        format::Version,
        histogram::Histogram,
        table::{BACKEND_REJECTED_NODES, BACKEND_REJECTED_RATIO, BACKEND_SENT_BYTES, KNOWN_NODES, PANICS},
    },
    *,
};

const OPEN_METRICS: Format = Format::OpenMetrics(Version::V1);

fn page<S: Series>(family: &Family<S>, format: Format) -> String {
    let mut page = Page::new(format);
    page.metric(family.definition, |page| {
        family.each(|values, series| series.write(Sample::new(family.definition, values), page));
    });
    page.finish()
}

fn counters(definition: &'static Definition) -> Family<Counter> {
    Family::new(definition, |_| Counter::default())
}

#[test]
fn a_counter_is_called_as_each_format_wants() {
    let family = counters(&BACKEND_SENT_BYTES);
    family.of(&["zones", "filter"]).add(7);
    let sample = "extender_gateway_backend_sent_bytes_total{backend=\"zones\",verb=\"filter\"} 7\n";
    let help = "Bytes of the messages sent to backends in calls";
    let (with, without) =
        ("extender_gateway_backend_sent_bytes_total", "extender_gateway_backend_sent_bytes");
    assert_eq!(
        page(&family, Format::Prometheus),
        format!("# HELP {with} {help}\n# TYPE {with} counter\n{sample}")
    );
    assert_eq!(
        page(&family, OPEN_METRICS),
        format!("# HELP {without} {help}\n# TYPE {without} counter\n# UNIT {without} bytes\n{sample}# EOF\n")
    );
}

#[test]
fn a_metric_without_a_series_is_left_out() {
    assert_eq!(page(&counters(&PANICS), Format::Prometheus), "");
    assert_eq!(page(&counters(&PANICS), OPEN_METRICS), "# EOF\n");
}

#[test]
fn a_metric_without_labels_has_no_braces() {
    let family = Family::new(&KNOWN_NODES, |_| Level::default());
    family.of(&[]).add(-3);
    assert!(page(&family, OPEN_METRICS).contains("\nextender_gateway_known_nodes -3\n"));
}

#[test]
fn what_a_backend_says_cannot_leave_its_label() {
    let family = counters(&BACKEND_REJECTED_NODES);
    family.of(&["zones", "a \"b\" \\ c\nd"]).add(1);
    let line = r#"{backend="zones",reason="a \"b\" \\ c\nd"} 1"#;
    assert!(page(&family, Format::Prometheus).ends_with(&format!("{line}\n")));
}

#[test]
fn a_histogram_has_buckets_a_sum_a_count_and_an_exemplar() {
    let family = Family::new(&BACKEND_REJECTED_RATIO, |_| Histogram::new(&[0.0, 0.5]));
    let histogram = family.of(&["zones"]);
    let mut trace = [0; 16];
    (trace[0], trace[15]) = (1, 0xab);
    for (value, trace) in [(0.0, None), (0.25, Some(trace)), (0.75, None)] {
        histogram.observe(value, trace);
    }
    let name = "extender_gateway_backend_rejected_ratio";
    let lines = [
        format!("{name}_bucket{{backend=\"zones\",le=\"0.0\"}} 1"),
        format!("{name}_bucket{{backend=\"zones\",le=\"0.5\"}} 2"),
        format!("{name}_bucket{{backend=\"zones\",le=\"+Inf\"}} 3"),
        format!("{name}_sum{{backend=\"zones\"}} 1"),
        format!("{name}_count{{backend=\"zones\"}} 3"),
    ];
    assert!(page(&family, Format::Prometheus).ends_with(&format!("{}\n", lines.join("\n"))));
    let text = page(&family, OPEN_METRICS);
    let exemplar = format!("\n{} # {{trace_id=\"010000000000000000000000000000ab\"}} 0.25 ", lines[1]);
    assert!(text.contains(&exemplar), "{text}");
}

/// The samples of a text, without exemplars.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let read = |line: &str| {
        let line = line.split_once(" # ").map_or(line, |(sample, _)| sample);
        let (sample, value) = line.rsplit_once(' ').unwrap();
        (sample.to_owned(), value.parse().unwrap())
    };
    lines.map(read).collect()
}

proptest! {
    #[test]
    fn both_formats_have_the_same_samples(
        counts in proptest::collection::vec(("[a-c]", "[ -~]{0,8}", any::<u32>()), 0..20),
        values in proptest::collection::vec((0.0..2.0_f64, proptest::option::of(any::<Trace>())), 0..40),
    ) {
        let (counted, spread) = (
            counters(&BACKEND_REJECTED_NODES),
            Family::new(&BACKEND_REJECTED_RATIO, |_| Histogram::new(&[0.0, 0.5, 1.0])),
        );
        for (backend, reason, count) in &counts {
            counted.of(&[backend, &reason.replace('#', "")]).add(u64::from(*count));
        }
        for (value, trace) in &values {
            spread.of(&["zones"]).observe(*value, *trace);
        }
        let both = |format| page(&counted, format) + &page(&spread, format);
        let (prometheus, open_metrics) = (both(Format::Prometheus), both(OPEN_METRICS));
        prop_assert!(!prometheus.contains(" # {"), "{}", prometheus);
        let known = samples(&prometheus);
        prop_assert_eq!(&known, &samples(&open_metrics));
        let rungs = known.keys().filter(|sample| sample.contains("_bucket{")).count();
        prop_assert_eq!(rungs, if values.is_empty() { 0 } else { 4 });
    }
}
