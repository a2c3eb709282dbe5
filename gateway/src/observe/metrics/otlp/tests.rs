use std::time::Duration;

use opentelemetry::{KeyValue, metrics::MeterProvider};
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
    data::{AggregatedMetrics, GaugeDataPoint, Metric, MetricData, ResourceMetrics, ScopeMetrics},
};

use super::super::{Gauge, Metrics, definition::Kind};

/// Metrics that are exported, and what their exporter has got.
struct Exported {
    metrics: Metrics,
    provider: SdkMeterProvider,
    exporter: InMemoryMetricExporter,
}

impl Exported {
    fn new() -> Self {
        let exporter = InMemoryMetricExporter::default();
        let reader = PeriodicReader::builder(exporter.clone()).with_interval(Duration::from_hours(1)).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        let metrics = Metrics::with_meter(&provider.meter("extender-gateway"));
        Self { metrics, provider, exporter }
    }

    /// What is exported now.
    fn exported(&self) -> Vec<ResourceMetrics> {
        self.exporter.reset();
        self.provider.force_flush().unwrap();
        self.exporter.get_finished_metrics().unwrap()
    }

    /// Looks at what is exported now under this name.
    #[track_caller]
    fn look<T>(&self, name: &str, look: impl Fn(&Metric) -> T) -> T {
        let exported = self.exported();
        let found = all(&exported).find(|metric| metric.name() == name);
        look(found.unwrap_or_else(|| panic!("no {name}")))
    }

    fn names(&self) -> Vec<String> {
        all(&self.exported()).map(|metric| metric.name().to_owned()).collect()
    }
}

fn all(exported: &[ResourceMetrics]) -> impl Iterator<Item = &Metric> {
    let scopes = exported.iter().flat_map(ResourceMetrics::scope_metrics);
    scopes.flat_map(ScopeMetrics::metrics)
}

fn counts(metric: &Metric) -> Vec<(Vec<KeyValue>, u64)> {
    let AggregatedMetrics::U64(MetricData::Sum(sum)) = metric.data() else { panic!("{metric:?}") };
    assert!(sum.is_monotonic());
    sum.data_points().map(|point| (point.attributes().cloned().collect(), point.value())).collect()
}

fn gauged(metric: &Metric) -> Vec<f64> {
    let AggregatedMetrics::F64(MetricData::Gauge(gauge)) = metric.data() else { panic!("{metric:?}") };
    gauge.data_points().map(GaugeDataPoint::value).collect()
}

#[test]
fn a_counter_is_exported_as_it_is_then() {
    let exported = Exported::new();
    let backend = exported.metrics.backend("zones", "filter");
    backend.remembered(5);
    let counted = |known: u64| {
        exported.look("extender_gateway_backend_known_nodes_total", |metric| {
            assert_eq!(metric.unit(), "");
            let attributes = [("backend", "zones"), ("verb", "filter"), ("source", "remembered")]
                .map(|(key, value)| KeyValue::new(key, value));
            let found = counts(metric).into_iter().find(|(found, _)| {
                found.len() == 3 && attributes.iter().all(|attribute| found.contains(attribute))
            });
            assert_eq!(found.map(|(_, count)| count), Some(known));
        });
    };
    counted(5);
    backend.remembered(2);
    counted(7);
    exported.metrics.retain_backends(&[]);
    assert!(!exported.names().contains(&"extender_gateway_backend_known_nodes_total".to_owned()));
}

#[test]
fn a_histogram_has_the_same_boundaries_and_values() {
    let exported = Exported::new();
    let filter = exported.metrics.verb("filter");
    filter.answered("ok", Duration::from_micros(300), Some([1; 16]));
    filter.answered("ok", Duration::from_secs(3), None);
    let Kind::Histogram(ladder) = super::super::table::CALL_DURATION.kind else { panic!() };
    exported.look("extender_gateway_call_duration_seconds", |metric| {
        assert_eq!(metric.unit(), "s");
        let AggregatedMetrics::F64(MetricData::Histogram(histogram)) = metric.data() else { panic!() };
        let point = histogram.data_points().next().unwrap();
        assert_eq!(point.bounds().collect::<Vec<_>>(), ladder);
        let counts: Vec<_> = point.bucket_counts().enumerate().filter(|(_, count)| *count > 0).collect();
        assert_eq!((counts, point.count()), (vec![(2, 1), (15, 1)], 2));
    });
}

#[test]
fn gauges_ask_their_owners() {
    let exported = Exported::new();
    assert!(!exported.names().contains(&"extender_gateway_known_nodes".to_owned()), "nobody owns it");
    exported.metrics.gauge(Gauge::KnownNodes, || Some(5_000.0));
    assert_eq!(exported.look("extender_gateway_known_nodes", gauged), [5_000.0]);
    exported.metrics.gauge(Gauge::KnownNodes, || Some(f64::NAN));
    assert!(!exported.names().contains(&"extender_gateway_known_nodes".to_owned()));
    let _call = exported.metrics.verb("bind").begun();
    exported.look("extender_gateway_calls_in_flight", |metric| {
        let AggregatedMetrics::I64(MetricData::Gauge(gauge)) = metric.data() else { panic!("{metric:?}") };
        assert_eq!(gauge.data_points().map(GaugeDataPoint::value).sum::<i64>(), 1);
    });
}

#[test]
fn every_metric_has_an_instrument_of_its_name() {
    let exported = Exported::new();
    exported.metrics.record_everything();
    let mut expected: Vec<_> = exported.metrics.families.definitions().iter().map(|each| each.name).collect();
    let mut names = exported.names();
    expected.sort_unstable();
    names.sort_unstable();
    assert_eq!(names, expected);
}
