//! The context of a span in HTTP headers and gRPC metadata: the `traceparent` of the W3C recommendation "Trace
//! Context".

use std::fmt;

use http::{HeaderMap, HeaderValue};
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

use crate::ids;

/// The header and metadata key of a [`TraceContext`].
pub const TRACEPARENT: &str = "traceparent";

/// The header and metadata key of vendor data.
pub const TRACESTATE: &str = "tracestate";

/// `00-` 32 digits `-` 16 digits `-` 2 digits.
const LENGTH: usize = 55;

/// The bit of the flags that says that the span is recorded.
const SAMPLED: u8 = 1;

/// A span's place in its trace. Neither id is all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The same for all spans of a trace.
    pub trace_id: TraceId,
    /// The span itself.
    pub span_id: SpanId,
    /// Whether the caller records its span, and callees should, too.
    pub sampled: bool,
}

/// A text that is not a `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a W3C traceparent, such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
pub struct Malformed;

impl TraceContext {
    /// A new span in a new trace, sampled.
    #[must_use]
    pub fn root() -> Self {
        Self { trace_id: ids::trace(), span_id: ids::span(), sampled: true }
    }

    /// A new span in the same trace, sampled as this one.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { span_id: ids::span(), ..*self }
    }

    /// The span of the sender of these headers. `None` for several `traceparent` headers, since it is unclear which
    /// is valid.
    #[must_use]
    pub fn of_caller(headers: &HeaderMap) -> Option<Self> {
        let mut given = headers.get_all(TRACEPARENT).iter();
        let only = given.next().filter(|_| given.next().is_none())?;
        Self::parse(only).ok()
    }

    /// Reads the value of a `traceparent` header, as strictly as the recommendation demands: lower-case digits, no
    /// version ff, no id of zeros, nothing after the flags of version 00. Of a later version the fields of version
    /// 00 are read; the rest must be separated by a dash.
    ///
    /// # Errors
    ///
    /// [`Malformed`]; a callee then continues as without the header.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, Malformed> {
        let (fields, rest) = text.as_ref().split_at_checked(LENGTH).ok_or(Malformed)?;
        let mut fields = fields.split(|byte| *byte == b'-');
        match number(fields.next(), 2)? {
            0 if !rest.is_empty() => return Err(Malformed),
            0xff => return Err(Malformed),
            _ if !matches!(rest, [] | [b'-', ..]) => return Err(Malformed),
            _ => {}
        }
        let trace_id = TraceId::from(number(fields.next(), 32)?);
        // 16 digits are at most 64 bits, 2 digits at most 8.
        let span_id = SpanId::from(u64::try_from(number(fields.next(), 16)?).map_err(|_| Malformed)?);
        let sampled = number(fields.next(), 2)? & u128::from(SAMPLED) != 0;
        let valid = trace_id != TraceId::INVALID && span_id != SpanId::INVALID;
        valid.then_some(Self { trace_id, span_id, sampled }).ok_or(Malformed)
    }

    /// The value of the `traceparent` header, version 00.
    #[must_use]
    pub fn traceparent(&self) -> [u8; LENGTH] {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write(&mut text[3..35], &self.trace_id.to_bytes());
        write(&mut text[36..52], &self.span_id.to_bytes());
        write(&mut text[53..], &[self.flags()]);
        text
    }

    /// The same as a header's value.
    #[must_use]
    pub fn header(&self) -> HeaderValue {
        HeaderValue::from_bytes(&self.traceparent()).expect("digits and dashes are visible ASCII")
    }

    /// The span as a type of the OpenTelemetry crates, such as for a link; marked as remote.
    #[must_use]
    pub fn remote(&self) -> SpanContext {
        SpanContext::new(self.trace_id, self.span_id, self.trace_flags(), true, TraceState::NONE)
    }

    pub(crate) fn trace_flags(&self) -> TraceFlags {
        TraceFlags::new(self.flags())
    }

    fn flags(&self) -> u8 {
        if self.sampled { SAMPLED } else { 0 }
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags())
    }
}

fn number(field: Option<&[u8]>, digits: usize) -> Result<u128, Malformed> {
    let field = field.filter(|field| field.len() == digits).ok_or(Malformed)?;
    field.iter().try_fold(0, |number, byte| Ok(number << 4 | u128::from(digit(*byte)?)))
}

fn digit(byte: u8) -> Result<u8, Malformed> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(Malformed),
    }
}

fn write(digits: &mut [u8], bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests;
