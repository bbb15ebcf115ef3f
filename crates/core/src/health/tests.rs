//! Tests of windows: tables, and a comparison with a model that stores everything.

use super::*;
use proptest::prelude::*;

fn sample(at_ms: i64, millis: u64, ending: CallEnding) -> HealthSample<'static> {
    let error_code = (ending == CallEnding::Timeout).then_some("call.timeout");
    let took = Duration::from_millis(millis);
    HealthSample { at_ms, took, ending, error_code, provider: "mcp:mail", persona: None }
}

fn window(samples: &[HealthSample<'_>]) -> Window {
    let mut window = Window::default();
    samples.iter().for_each(|sample| window.record(sample));
    window
}

#[test]
fn a_tools_own_error_does_not_count_against_its_provider() {
    let cases = [
        (CallEnding::Done, 1.0, 1.0),
        (CallEnding::ToolError, 0.0, 1.0),
        (CallEnding::Failed, 0.0, 0.0),
        (CallEnding::Timeout, 0.0, 0.0),
    ];
    for (ending, of_tool, of_provider) in cases {
        let window = window(&[sample(1, 1, ending)]);
        assert_eq!(window.success_rate(HealthSubject::Tool, 1), Some(of_tool), "{ending}");
        assert_eq!(window.success_rate(HealthSubject::Provider, 1), Some(of_provider), "{ending}");
    }
    assert_eq!(Window::default().success_rate(HealthSubject::Tool, 1), None);
}

#[test]
fn percentiles_use_the_nearest_rank() {
    let cases = [
        (vec![7], (7.0, 7.0, 7.0)),
        (vec![1, 2], (1.5, 1.0, 2.0)),
        (vec![5, 1, 3, 2, 4], (3.0, 3.0, 5.0)),
        (vec![10, 20, 30, 40, 50, 60, 70, 80, 90, 100], (55.0, 50.0, 100.0)),
    ];
    for (millis, (avg, p50, p95)) in cases {
        let samples: Vec<_> = millis.iter().map(|millis| sample(1, *millis, CallEnding::Done)).collect();
        let view = window(&samples).view(HealthSubject::Tool, 1, PersonaFilter::All);
        assert_eq!(view.whole.latency_ms, Some(Latency { avg, p50, p95 }), "{millis:?}");
    }
}

#[test]
fn calls_older_than_a_day_do_not_count_but_the_last_call_stays() {
    let window = window(&[sample(0, 5, CallEnding::Done), sample(1_000, 9, CallEnding::Timeout)]);
    let at = |now_ms| window.view(HealthSubject::Tool, now_ms, PersonaFilter::All);
    assert_eq!((at(1_000).whole.calls, at(SPAN_MS).whole.calls, at(SPAN_MS + 1).whole.calls), (2, 2, 1));
    let late = at(SPAN_MS + 1_001);
    assert_eq!((late.whole, late.by_persona.len()), (Slice::default(), 0));
    let last = late.last_call.expect("the last call");
    assert_eq!((last.outcome, last.error_code.as_deref()), ("timeout", Some("call.timeout")));
    assert_eq!((last.at_ms, last.duration_ms), (1_000, 9));
    assert_eq!(late.last_success_provider.as_deref(), Some("mcp:mail"));
}

#[test]
fn a_slice_covers_one_persona() {
    let with = |persona| HealthSample { persona: Some(persona), ..sample(1, 1, CallEnding::Done) };
    let window = window(&[with("dev"), with("dev"), with("audit"), sample(1, 1, CallEnding::Failed)]);
    let all = window.view(HealthSubject::Tool, 1, PersonaFilter::All);
    let calls: Vec<_> = all.by_persona.iter().map(|(name, slice)| (name.as_str(), slice.calls)).collect();
    assert_eq!(calls, [("audit", 1), ("dev", 2), ("shared", 1)]);
    let own = window.view(HealthSubject::Tool, 1, PersonaFilter::Only("dev"));
    assert_eq!(own.by_persona.keys().collect::<Vec<_>>(), ["dev"]);
    assert_eq!(own.whole.calls, 4);
}

#[test]
fn names_over_the_limit_share_a_slice() {
    let mut window = Window::default();
    for number in 0..MAX_SAMPLES {
        let name = format!("p{number}");
        window.record(&HealthSample {
            persona: Some(&name),
            provider: &name,
            ..sample(1, 1, CallEnding::Done)
        });
    }
    let view = window.view(HealthSubject::Tool, 1, PersonaFilter::All);
    assert_eq!(view.by_persona.len(), MAX_PERSONAS + 1);
    assert_eq!(view.by_persona[OTHERS].calls, MAX_SAMPLES - MAX_PERSONAS);
    assert_eq!(view.last_success_provider.as_deref(), Some(OTHERS));
}

#[test]
fn a_call_takes_sixteen_bytes() {
    assert_eq!(size_of::<RecordedCall>(), 16);
    for text in [
        "",
        "{}",
        r#"{"calls":[[1,2,"odd",0]],"personas":[],"providers":[],"last":null,"last_success":null}"#,
    ] {
        assert_eq!(Window::from_text(text), None, "{text}");
    }
}

fn any_call() -> impl Strategy<Value = (i64, u64, usize, Option<usize>, usize)> {
    let persona = prop_oneof![Just(None), (0..3_usize).prop_map(Some)];
    (0..SPAN_MS / 60, 0..100_000_u64, 0..4_usize, persona, 0..3_usize)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_window_agrees_with_a_model_that_stores_everything(
        calls in prop::collection::vec(any_call(), 0..300),
        later in 0..SPAN_MS * 2,
    ) {
        const NAMES: [&str; 3] = ["a", "b", "c"];
        let (mut window, mut now_ms, mut all) = (Window::default(), 0, Vec::new());
        for (pause, micros, ending, persona, provider) in calls {
            now_ms += pause;
            let sample = HealthSample {
                at_ms: now_ms,
                took: Duration::from_micros(micros),
                ending: CallEnding::ALL[ending],
                error_code: None,
                provider: NAMES[provider],
                persona: persona.map(|place| NAMES[place]),
            };
            window.record(&sample);
            all.push(sample);
        }
        now_ms += later;
        // A window that is read back is the same.
        let read = Window::from_text(&window.to_text());
        prop_assert_eq!(read.as_ref(), Some(&window));
        let skipped = all.len().saturating_sub(MAX_SAMPLES);
        let model: Vec<_> =
            all[skipped..].iter().filter(|call| now_ms - call.at_ms <= SPAN_MS).collect();
        for subject in [HealthSubject::Tool, HealthSubject::Provider] {
            let view = window.view(subject, now_ms, PersonaFilter::All);
            prop_assert_eq!(view.whole.calls, model.len());
            let good = model.iter().filter(|call| match call.ending {
                CallEnding::Done => true,
                CallEnding::ToolError => subject == HealthSubject::Provider,
                CallEnding::Failed | CallEnding::Timeout => false,
            });
            let rate = (!model.is_empty()).then(|| good.count() as f64 / model.len() as f64);
            prop_assert_eq!(view.whole.success_rate, rate);
            prop_assert_eq!(window.success_rate(subject, now_ms), rate);
            let sum: usize = view.by_persona.values().map(|slice| slice.calls).sum();
            prop_assert_eq!(sum, model.len());
            for (name, slice) in &view.by_persona {
                let named = model.iter().filter(|call| call.persona.unwrap_or(SHARED) == name);
                prop_assert_eq!(slice.calls, named.count());
            }
            if let Some(latency) = view.whole.latency_ms {
                let below = |bound: f64| {
                    model.iter().filter(|call| call.took.as_micros() as f64 <= bound * 1000.0 + 0.001).count()
                };
                prop_assert!(below(latency.p50) * 100 >= model.len() * 50);
                prop_assert!(below(latency.p95) * 100 >= model.len() * 95);
                prop_assert!(latency.p50 <= latency.p95);
            }
            let expected = all.iter().rev().find(|call| call.ending == CallEnding::Done).map(|call| call.provider);
            prop_assert_eq!(view.last_success_provider.as_deref(), expected);
            prop_assert_eq!(view.last_call.map(|last| last.at_ms), all.last().map(|call| call.at_ms));
        }
    }
}
