//! The trace context of a request, from its `_meta` or its HTTP headers.

use http::HeaderMap;
use toolbooth_core::json::{Member, RawJson};
use toolbooth_core::trace::{MAX_TRACESTATE, TRACEPARENT, TRACESTATE, TraceContext};

/// The client's `_meta`, with the trace context of the headers if it has none.
pub fn continued(mut meta: Vec<Member>, headers: Option<&HeaderMap>) -> Vec<Member> {
    let Some(parent) = headers.and_then(|headers| headers.get(TRACEPARENT)) else { return meta };
    let Some(parent) = parent.to_str().ok().filter(|parent| TraceContext::parse(parent).is_some()) else {
        return meta;
    };
    if meta.iter().any(|member| member.key == TRACEPARENT) {
        return meta;
    }
    let state = headers.and_then(|headers| headers.get(TRACESTATE)).and_then(|state| state.to_str().ok());
    let state = state.filter(|state| state.len() <= MAX_TRACESTATE).map(|state| (TRACESTATE, state));
    meta.retain(|member| member.key != TRACESTATE);
    for (key, value) in [(TRACEPARENT, parent)].into_iter().chain(state) {
        meta.push(Member { key: key.to_owned(), value: RawJson::from_value(value) });
    }
    meta
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_supply_a_missing_trace_context() {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let own = "00-11111111111111111111111111111111-2222222222222222-01";
        let cases = [
            (None, None, None),
            (Some(trace), None, Some(trace)),
            (Some(trace), Some(own), Some(own)),
            (Some("nonsense"), None, None),
        ];
        for (header, meta, expected) in cases {
            let mut headers = HeaderMap::new();
            if let Some(header) = header {
                headers.insert(TRACEPARENT, header.parse().expect("a header"));
                headers.insert(TRACESTATE, "a=b".parse().expect("a header"));
            }
            let meta =
                meta.map(|own: &str| Member { key: TRACEPARENT.into(), value: RawJson::from_value(own) });
            let continued = continued(meta.into_iter().collect(), Some(&headers));
            let of = |key: &str| {
                let member = continued.iter().find(|member| member.key == key);
                member.and_then(|member| member.value.string()).map(|text| text.into_owned())
            };
            assert_eq!(of(TRACEPARENT).as_deref(), expected, "{header:?}");
            assert_eq!(of(TRACESTATE).is_some(), expected == Some(trace), "{header:?}");
        }
    }
}
