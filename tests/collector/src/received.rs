//! The received spans, in a form that tests can read.

use std::collections::BTreeMap;

use http::HeaderMap;
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::Span,
};

/// Attributes by key; numbers and flags as text.
pub type Attributes = BTreeMap<String, String>;

/// A span and its origin.
#[derive(Clone, Debug)]
pub struct ReceivedSpan {
    /// Of its request.
    pub headers: HeaderMap,
    /// Attributes of its resource.
    pub resource: Attributes,
    /// Name and version of its instrumentation scope.
    pub scope: (String, String),
    /// The span.
    pub span: Span,
    /// Its attributes.
    pub attributes: Attributes,
}

#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) spans: Vec<ReceivedSpan>,
}

impl Received {
    pub(crate) fn trace(&mut self, headers: &HeaderMap, request: ExportTraceServiceRequest) {
        for of_resource in request.resource_spans {
            let resource = resource(of_resource.resource);
            for of_scope in of_resource.scope_spans {
                let scope = of_scope.scope.map(|scope| (scope.name, scope.version)).unwrap_or_default();
                self.spans.extend(of_scope.spans.into_iter().map(|span| ReceivedSpan {
                    headers: headers.clone(),
                    resource: resource.clone(),
                    scope: scope.clone(),
                    attributes: attributes(&span.attributes),
                    span,
                }));
            }
        }
    }
}

fn resource(resource: Option<Resource>) -> Attributes {
    attributes(&resource.unwrap_or_default().attributes)
}

impl ReceivedSpan {
    /// The attributes of its events, by their names.
    pub fn events(&self) -> Vec<(String, Attributes)> {
        self.span.events.iter().map(|event| (event.name.clone(), attributes(&event.attributes))).collect()
    }

    /// The attributes of its links.
    pub fn links(&self) -> Vec<Attributes> {
        self.span.links.iter().map(|link| attributes(&link.attributes)).collect()
    }
}

fn attributes(attributes: &[KeyValue]) -> Attributes {
    attributes.iter().map(|attribute| (attribute.key.clone(), text(attribute.value.as_ref()))).collect()
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        other => format!("{other:?}"),
    }
}
