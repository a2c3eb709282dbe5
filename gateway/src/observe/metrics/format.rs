//! Which of the two text formats a scraper wants.

/// A text format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The Prometheus text format 0.0.4.
    Prometheus,
    /// `OpenMetrics`, in the version that was asked for: it has exemplars and says where it ends.
    OpenMetrics(Version),
}

/// A version of `OpenMetrics`. What is written is the same in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 0.0.1
    V0,
    /// 1.0.0
    V1,
}

impl Format {
    /// The format that an `Accept` header prefers; Prometheus' own where it says nothing of use. Mirrors
    /// `NegotiateIncludingOpenMetrics` of Prometheus' Go library, except that a quality of 0 is a no.
    pub fn accepted(accept: &str) -> Self {
        let mut offers: Vec<Offer> = accept.split(',').filter_map(Offer::read).collect();
        offers.sort_by(|a, b| b.quality.total_cmp(&a.quality));
        offers.first().map_or(Self::Prometheus, |best| best.format)
    }

    /// What the header `Content-Type` says.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics(Version::V0) => "application/openmetrics-text; version=0.0.1; charset=utf-8",
            Self::OpenMetrics(Version::V1) => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A format that the scraper can read.
struct Offer {
    format: Format,
    /// From 0 to 1.
    quality: f32,
}

impl Offer {
    /// One element of the header; `None` for a format that is not spoken here.
    fn read(element: &str) -> Option<Self> {
        let mut parts = element.split(';').map(str::trim);
        let kind = parts.next()?.to_ascii_lowercase();
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let said = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let format = spoken(&kind, said("version").map(|version| version.trim_matches('"')))?;
        let quality = said("q").and_then(|quality| quality.parse().ok()).unwrap_or(1.0);
        (quality > 0.0).then_some(Self { format, quality })
    }
}

fn spoken(kind: &str, version: Option<&str>) -> Option<Format> {
    match (kind, version) {
        ("text/plain", None | Some("0.0.4")) => Some(Format::Prometheus),
        ("application/openmetrics-text", None | Some("0.0.1")) => Some(Format::OpenMetrics(Version::V0)),
        ("application/openmetrics-text", Some("1.0.0")) => Some(Format::OpenMetrics(Version::V1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V0: Format = Format::OpenMetrics(Version::V0);
    const V1: Format = Format::OpenMetrics(Version::V1);

    #[test]
    fn the_scraper_gets_what_it_prefers() {
        for (accept, expected) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/html, application/xml;q=0.9, */*;q=0.8", Format::Prometheus),
            ("text/plain", Format::Prometheus),
            ("text/plain;version=1.0.0", Format::Prometheus),
            ("application/openmetrics-text", V0),
            ("application/openmetrics-text; version=0.0.1", V0),
            ("Application/OpenMetrics-Text; version=\"1.0.0\"", V1),
            ("application/openmetrics-text; version=2.0.0", Format::Prometheus),
            ("application/openmetrics-text; version=1.0.0; q=0", Format::Prometheus),
            ("text/plain;version=0.0.4;q=0.2,application/openmetrics-text;version=1.0.0;q=0.3", V1),
            ("application/openmetrics-text;version=1.0.0;q=0.2,text/plain;q=0.3", Format::Prometheus),
            ("application/openmetrics-text;version=1.0.0,text/plain", V1),
            ("text/plain,application/openmetrics-text;version=1.0.0", Format::Prometheus),
            ("application/openmetrics-text;version=1.0.0;q=much", V1),
        ] {
            assert_eq!(Format::accepted(accept), expected, "{accept}");
        }
    }

    #[test]
    fn what_prometheus_sends_is_understood() {
        let prometheus_2 = "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;\
            version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let protobuf_first = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
            encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.3";
        assert_eq!(Format::accepted(prometheus_2), V1);
        assert_eq!(Format::accepted(prometheus_3), V1);
        assert_eq!(Format::accepted(protobuf_first), Format::Prometheus);
    }
}
