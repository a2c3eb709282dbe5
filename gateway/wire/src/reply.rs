//! Replies to filter and prioritize, spliced from the request's bytes.
//!
//! Accepted nodes are returned byte for byte: neighbors that both remain are one run of bytes, including commas,
//! and if nothing was rejected the list is a single run. Long runs are slices of the request, short ones are
//! copied, since many small segments cost more than one copy.

use std::ops::Range;

use bytes::Bytes;
use extender_gateway_core::filter::Rejected;

use super::{Keys, Offer, Request, json};

/// A run of at least this many bytes is passed on as a slice instead of being copied. Most full nodes are, and long runs
/// of names. A copy needs fresh memory, which the kernel clears.
const WORTH_A_SLICE: usize = 8 * 1024;

/// A reply's body, in pieces.
#[derive(Debug, Default)]
pub struct Body {
    pieces: Vec<Bytes>,
    open: Vec<u8>,
}

impl Body {
    fn with_capacity(bytes: usize) -> Self {
        Self { pieces: Vec::new(), open: Vec::with_capacity(bytes) }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.open.extend_from_slice(bytes);
    }

    fn splice(&mut self, from: &Bytes, range: Range<usize>) {
        if range.len() < WORTH_A_SLICE {
            return self.push(&from[range]);
        }
        self.close();
        self.pieces.push(from.slice(range));
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.pieces.push(std::mem::take(&mut self.open).into());
        }
    }

    /// The pieces, in order; none of them empty.
    pub fn into_pieces(mut self) -> Vec<Bytes> {
        self.close();
        self.pieces
    }
}

impl From<Vec<u8>> for Body {
    fn from(open: Vec<u8>) -> Self {
        Self { pieces: Vec::new(), open }
    }
}

/// A reason as kube-scheduler receives it, for each group of [`Rejected`].
#[derive(Debug, Default)]
pub struct Reason {
    /// The text; safe for kube-scheduler (`extender_gateway_core::reason`).
    pub text: String,
    /// Whether it is in `FailedNodes` instead of `FailedAndUnresolvableNodes`.
    pub preemption_may_help: bool,
    /// Whether no pod that leaves a node changes it. Extenders cannot say so.
    pub regardless_of_pods: bool,
}

/// The reply to filter: `ExtenderFilterResult`.
///
/// For names it contains `NodeNames`, never null, and no `Nodes`, since kube-scheduler uses `Nodes` unchecked in
/// either mode; for full objects it is the other way round. Callers that do not know `FailedAndUnresolvableNodes`
/// get every rejection in `FailedNodes`: they would drop a node that is only in the other map without a reason.
pub fn filtered(request: &Request, rejected: &Rejected, reasons: &[Reason]) -> Body {
    let mut body = Body::with_capacity(copied(request, rejected));
    let (open, close): (&[u8], &[u8]) = match request.offer {
        Offer::Names => (br#"{"NodeNames":["#, b"]"),
        Offer::Objects(_) => (br#"{"Nodes":{"metadata":{},"items":["#, b"]}"),
    };
    body.push(open);
    push_accepted(&mut body, request, rejected);
    body.push(close);
    push_rejected(&mut body, request, rejected, reasons);
    body.push(br#","Error":""}"#);
    body
}

/// The reply to bind if the Binding exists: `ExtenderBindingResult`. Never `{}`, which could not be distinguished
/// from a response that a proxy has emptied.
pub fn bound() -> Body {
    error("")
}

/// The reply to prioritize: `HostPriorityList`, in the request's order. Nodes without a total are omitted; a node
/// that was sent twice is listed twice, as each of several extenders would do.
pub fn prioritized(request: &Request, totals: &[Option<i64>]) -> Body {
    const BESIDE_THE_NAME: usize = r#"{"Host":,"Score":},"#.len() + 20;
    let entries = 0..request.names.entries();
    let names: usize = entries.clone().map(|entry| request.quoted(entry).len()).sum();
    let mut out = Vec::with_capacity(names + entries.len() * BESIDE_THE_NAME + 2);
    out.push(b'[');
    for entry in entries {
        if let Some(total) = totals[request.names.node_at(entry) as usize] {
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(br#"{"Host":"#);
            out.extend_from_slice(request.quoted(entry));
            out.extend_from_slice(br#","Score":"#);
            push_number(&mut out, total);
            out.push(b'}');
        }
    }
    out.push(b']');
    out.into()
}

/// The reply with only `Error` set. For filter it ends the call: kube-scheduler shows the text in the pod's
/// condition and retries the pod with backoff. For bind it reports the failure.
pub fn error(text: &str) -> Body {
    let mut out = br#"{"Error":"#.to_vec();
    json::push_string(&mut out, text);
    out.push(b'}');
    out.into()
}

fn push_number(out: &mut Vec<u8>, number: i64) {
    serde_json::to_writer(out, &number).expect("a number can be written to memory");
}

/// About how many bytes of accepted nodes are copied at once.
fn copied(request: &Request, rejected: &Rejected) -> usize {
    match request.offer {
        // Without rejections they are one slice.
        Offer::Names if !rejected.nodes.is_empty() => request.body().len(),
        Offer::Names | Offer::Objects(_) => 64,
    }
}

fn push_accepted(body: &mut Body, request: &Request, rejected: &Rejected) {
    let entries = request.names.entries();
    let accepted = |entry: &usize| match rejected.nodes.get(request.names.node_at(*entry) as usize) {
        None => true,
        Some(group) => group.is_none(),
    };
    let mut next = 0;
    let mut separator: &[u8] = b"";
    while let Some(first) = (next..entries).find(accepted) {
        let end = (first..entries).find(|entry| !accepted(entry)).unwrap_or(entries);
        body.push(separator);
        body.splice(request.body(), request.element(first).start..request.element(end - 1).end);
        separator = b",";
        next = end;
    }
}

fn push_rejected(body: &mut Body, request: &Request, rejected: &Rejected, reasons: &[Reason]) {
    let longest = reasons.iter().map(|reason| reason.text.len()).max().unwrap_or(0);
    body.open.reserve(rejected.nodes.iter().flatten().count() * (longest + 8) + 64);
    let quoted: Vec<Vec<u8>> = reasons.iter().map(|reason| quoted(&reason.text)).collect();
    let one_map = request.keys == Keys::LowerCase;
    for (key, helps) in [(&b",\"FailedNodes\":{"[..], true), (b",\"FailedAndUnresolvableNodes\":{", false)] {
        body.push(key);
        let mut separator: &[u8] = b"";
        for (node, group) in (0_u32..).zip(&rejected.nodes) {
            let Some(group) = group.map(|group| group as usize) else { continue };
            if (reasons[group].preemption_may_help || one_map) == helps {
                body.push(separator);
                body.push(request.quoted(request.names.first_entry(node)));
                body.push(b":");
                body.push(&quoted[group]);
                separator = b",";
            }
        }
        body.push(b"}");
    }
}

fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    json::push_string(&mut out, text);
    out
}

#[cfg(test)]
mod tests;
