use proptest::prelude::*;

use super::*;

const TRACE: u128 = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
const SPAN: u64 = 0xb7ad_6b71_6920_3331;

#[test]
fn the_recommendations_own_example_is_read() {
    let read = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
    assert_eq!((read.trace_id, read.span_id, read.sampled), (TraceId::from(TRACE), SpanId::from(SPAN), true));
}

#[test]
fn flags_beside_sampled_and_later_versions_are_read_over() {
    for (text, sampled) in [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", false),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02", false),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03", true),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff", true),
        ("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true),
        ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what the future will be like", true),
        ("fe-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-", false),
    ] {
        let read = TraceContext::parse(text).unwrap();
        assert_eq!((read.trace_id, read.sampled), (TraceId::from(TRACE), sampled), "{text}");
    }
}

#[test]
fn what_is_none_is_refused() {
    for text in [
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        // Version 00 has nothing after the flags.
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-010",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 ",
        " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        // A later version's field begins with a dash.
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.what",
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-001",
        // Ids of zeros.
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        // Upper case, and non-digits.
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-B7AD6B7169203331-01",
        "0A-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0A",
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "0x-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        // Dashes elsewhere.
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
        "000-af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333-101",
        "-------------------------------------------------------",
        "ää-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
    ] {
        assert_eq!(TraceContext::parse(text), Err(Malformed), "{text:?}");
    }
}

fn valid() -> impl Strategy<Value = TraceContext> {
    (1_u128.., 1_u64.., any::<bool>()).prop_map(|(trace, span, sampled)| TraceContext {
        trace_id: TraceId::from(trace),
        span_id: SpanId::from(span),
        sampled,
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_it_was(context in valid()) {
        let written = context.traceparent();
        prop_assert_eq!(TraceContext::parse(written), Ok(context));
        let (text, header) = (context.to_string(), context.header());
        prop_assert_eq!(&written[..], text.as_bytes());
        prop_assert_eq!(&written[..], header.as_bytes());
        prop_assert_eq!(TraceContext::parse(text), Ok(context));
    }

    #[test]
    fn nothing_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = TraceContext::parse(bytes);
    }

    /// One byte that differs gives another context, or none.
    #[test]
    fn no_byte_is_read_over(context in valid(), at in 0..55_usize, byte: u8) {
        let mut written = context.traceparent();
        prop_assume!(written[at] != byte);
        written[at] = byte;
        let read = TraceContext::parse(written);
        let flags = at >= 53;
        let version = at < 2;
        prop_assert!(flags || version || read != Ok(context), "{read:?}");
    }

    #[test]
    fn a_child_is_another_span_of_the_same_trace(context in valid()) {
        let child = context.child();
        prop_assert_eq!((child.trace_id, child.sampled), (context.trace_id, context.sampled));
        prop_assert_ne!(child.span_id, context.span_id);
    }
}
